"""Finding words: targets of cells, boxes that join, and figures that count."""

import numpy as np
import torch

from regard.data import Lettering, Signs, Weather
from regard.data.signs import DrawnSigns
from regard.models import TextDetector, TextDetectorConfig
from regard.models.text_detector import Detected
from regard.tasks import FindingSettings, WordFinding, WordFindingConfig
from regard.tasks.word_finding import cell_targets, chosen_boxes, intersection_by_union, matches
from regard.viz import draw

CONFIG = WordFindingConfig(
    signs=Signs(size=64, words=3, lowest=14, highest=24), lettering=Lettering(curved=0.0), weather=Weather(),
    faces=("DejaVu Sans",), longest=4, batch_size=2, held_out=3,
)  # fmt: skip


class Knowing(torch.nn.Module):
    """Says what the targets of signs say."""

    def __init__(self, signs: DrawnSigns) -> None:
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(1))
        inside, _, self.sides = cell_targets(signs, 16)
        self.scores = torch.where(inside, 9.0, -9.0)

    def forward(self, images: torch.Tensor) -> Detected:
        return Detected(self.scores[: len(images)], self.sides[: len(images)])


def test_one_who_knows_the_targets_finds_every_word() -> None:
    task = WordFinding(CONFIG)
    evaluation = task.evaluate(Knowing(task.splits["test"]), "test", full=True)
    assert evaluation.figures == {"f1": 100.0, "precision": 100.0, "recall": 100.0}
    assert evaluation.details["count"] == 3
    nothing = Knowing(task.splits["test"])
    nothing.scores = torch.full_like(nothing.scores, -9.0)
    assert task.evaluate(nothing, "test").figures == {"f1": 0.0, "precision": 0.0, "recall": 0.0}
    again = WordFinding(CONFIG).splits["valid"]
    assert again.images.equal(task.splits["valid"].images)


def test_cells_of_a_box_and_their_sides() -> None:
    boxes = torch.tensor([[[8.0, 4.0, 20.0, 40.0], [0.0, 0.0, 60.0, 60.0]]])
    drawn = DrawnSigns(torch.zeros(1, 1, 64, 64), boxes, torch.tensor([[True, False]]))
    inside, rim, sides = cell_targets(drawn, 16)
    for row in range(16):
        for column in range(16):
            y, x = 4 * row + 2, 4 * column + 2
            distances = [y - 8, x - 4, 28 - y, 44 - x]
            assert bool(inside[0, row, column]) == (min(distances) > 4)
            assert bool(rim[0, row, column]) == (-1 < min(distances) <= 4)
            if inside[0, row, column]:
                assert sides[0, :, row, column].tolist() == distances


def test_overlaps() -> None:
    one, other = (
        torch.tensor([[[[2.0]], [[2.0]], [[2.0]], [[2.0]]]]),
        torch.tensor([[[[2.0]], [[2.0]], [[2.0]], [[6.0]]]]),
    )
    assert intersection_by_union(one, other).item() == 0.5
    truth = np.array([[0, 0, 10, 10], [0, 20, 10, 10]], np.float32)
    assert matches(truth[[1, 0]], truth) == 2
    assert matches(np.array([[0, 0, 10, 10], [0, 1, 10, 10]], np.float32), truth) == 1  # one word counts once
    assert matches(np.array([[0, 6, 10, 10]], np.float32), truth) == 0
    assert matches(np.zeros((0, 4), np.float32), truth) == 0


def test_cells_of_one_word_join() -> None:
    scores, sides = torch.zeros(8, 8), torch.zeros(4, 8, 8)
    for row, column, certainty in ((4, 2, 0.9), (4, 3, 0.6), (1, 6, 0.55)):
        scores[row, column] = certainty
        sides[:, row, column] = torch.tensor([4.0, 4 * column - 2.0, 4.0, 4.0])
    found = chosen_boxes(scores, sides, FindingSettings())
    assert len(found.boxes) == 2
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    assert len(chosen_boxes(scores, sides, FindingSettings(certainty=0.95)).boxes) == 0


def test_losses_and_pictures_of_any_size() -> None:
    task, model = WordFinding(CONFIG), TextDetector(TextDetectorConfig(channels=4))
    loss = task.loss(model, next(task.batches(seed=0)))
    loss.total.backward()
    assert loss.total.isfinite()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.say.bias.data[0] = 5.0
    picture = np.random.default_rng(0).integers(0, 256, (37, 90, 3)).astype(np.uint8)
    [[found]] = task.predict(model, [picture])
    assert len(found.boxes) == len(found.scores) > 0
    assert (found.boxes[:, :2] >= 0).all()
    assert (found.boxes[:, 0] + found.boxes[:, 2] <= 37).all()
    assert (found.boxes[:, 1] + found.boxes[:, 3] <= 90).all()
    draw(found.explanations[0])
    [example] = task.examples(model, "test", [1])
    assert example.reference == f"{int(task.splits['test'].visible[1].sum())} words"

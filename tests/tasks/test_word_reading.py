"""Reading words: losses, figures, predictions and the places of letters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from few_words import SMALL, photographs

from regard.base import ConfigError
from regard.data import BOS, EOS, PAD, UNK
from regard.data.words import FIRST
from regard.models import SceneText, SceneTextConfig
from regard.tasks import WordReading
from regard.tasks.word_pictures import targets_of
from regard.viz import draw

MODEL = SceneTextConfig(
    rectify=False, channels=2, blocks=(1, 1, 1, 1), hidden_dim=8, layers=1, embed_dim=4, align_dim=8, control_points=6,
    dropout=0.0,
)  # fmt: skip


def pair(**changes: Any) -> tuple[WordReading, SceneText]:
    task = WordReading(SMALL)
    return task, SceneText(task.complete(replace(MODEL, **changes)))


def test_the_loss_is_a_sum_over_letters_and_ends() -> None:
    task, model = pair()
    batch = next(task.batches(seed=0))
    torch.manual_seed(3)
    total = task.loss(model, batch).total
    torch.manual_seed(3)
    shown = task.training_words(8, torch.device("cpu"))
    inputs, targets = targets_of(shown.labels)
    logits = model(shown.images, inputs).logits
    torch.testing.assert_close(
        total, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
    )
    assert batch.count == 8


def test_a_full_evaluation_reads_every_test_set() -> None:
    config = replace(SMALL, real=("iiit5k",), tested=("iiit5k",))
    task = WordReading(config, photographs={"iiit5k": photographs()})
    model = SceneText(task.complete(MODEL))
    evaluation = task.evaluate(model, "test", full=True)
    for name in ("iiit5k", "rendered", "curved"):
        assert 0 <= evaluation.figures[f"accuracy_{name}"] <= 100
        assert evaluation.figures[f"character_errors_{name}"] >= 0
    assert evaluation.figures["accuracy"] == evaluation.figures["accuracy_iiit5k"]
    assert len(evaluation.details["outputs"]) == 5
    assert evaluation.details["missing"] == {}
    assert set(task.evaluate(model, "valid").figures) == {"accuracy", "character_errors", "loss"}


def test_a_reader_that_is_right_has_all_words_right() -> None:
    task, _ = pair()
    words = task.held_out("rendered")

    class Knowing(torch.nn.Module):
        """Says the words of the split, in order."""

        attends, grid = True, (1, 2)

        def __init__(self) -> None:
            super().__init__()
            self.nothing = torch.nn.Parameter(torch.zeros(1))

        def encode(self, images: Any, widths: Any) -> Any:
            return len(images)

        def init_state(self, memory: Any) -> Any:
            return {"row": torch.arange(memory), "time": torch.zeros(memory, dtype=torch.long)}

        def step(self, tokens: Any, state: Any) -> Any:
            from regard.data.words import VOCABULARY, spell
            from regard.decode import Step

            letters = [[*spell(words.texts[row]), EOS] for row in state["row"].tolist()]
            following = torch.tensor([row[time] for row, time in zip(letters, state["time"].tolist(), strict=True)])
            logits = F.one_hot(following, VOCABULARY).float() * 50
            return Step(logits, {**state, "time": state["time"] + 1}, torch.full((len(tokens), 2), 0.5))

    assert task.texts(Knowing(), words, task.config.search) == list(words.texts)


@pytest.mark.parametrize("changes", [
    {}, {"rectify": True}, {"decoder": "attention_2d"}, {"decoder": "ctc"},
])  # fmt: skip
def test_predictions_tell_where_letters_are(changes: dict[str, Any]) -> None:
    task, model = pair(**changes)
    picture = np.random.default_rng(0).integers(0, 256, (20, 50, 3)).astype(np.uint8)
    if model.attends:
        model.to_logits.bias.data[EOS] -= 2.0  # some letters
    else:
        model.to_logits.bias.data[[BOS, EOS, UNK]] += 9.0  # which no column may say
        model.to_logits.bias.data[FIRST + 7] += 5.0
    [[best], _] = task.predict(model, [picture, picture[:, :9]])
    assert best.described.startswith(best.text)
    assert 0 <= best.probability <= 1
    assert model.attends or best.text
    if best.text:
        [places] = best.explanations
        assert list(places.labels) == list(best.text)
        np.testing.assert_allclose(places.weights.sum((1, 2)), 1, atol=1e-4)
        draw(places)
    [example] = task.examples(model, "rendered", [3])
    assert example.reference == task.held_out("rendered").texts[3]
    assert task.predict(model, []) == []


def test_settings_that_do_not_go_together() -> None:
    task = WordReading(replace(SMALL, keep_ratio=True))
    with pytest.raises(ConfigError, match=r"a straightened word fills its picture.*Try: set task\.keep_ratio=false"):
        task.complete(replace(MODEL, rectify=True))
    completed = task.complete(MODEL)
    assert (completed.vocabulary, completed.height, completed.width) == (40, 16, 48)
    assert task.settings(beam=3).beams == 3

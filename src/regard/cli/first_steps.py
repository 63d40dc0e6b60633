"""The work of `regard tour`: soft look-up, six scores on one sentence, and six alignments of one row of scores."""

from pathlib import Path

import torch
from torch import Tensor, nn

from regard.align import Align, Entmax, LocalMonotonic, Softmax, Sparsemax, TopK
from regard.attention import Attention, Sinusoidal, lookup, trace
from regard.base import check_installed
from regard.score import Additive, Cosine, Distance, Dot, General, Location, ScaledDot, Score
from regard.viz import heatmap, heatmaps, save

SENTENCE = ["the", "agreement", "on", "the", "European", "Economic", "Area", "was", "signed"]
DIM, STEPS = 16, 40


def take_tour(out: str) -> None:
    """Print the look-ups and the table of scores; draw the pictures into the folder `out`."""
    check_installed("matplotlib", what="regard tour")
    folder = Path(out)
    torch.manual_seed(0)
    _look_up()
    layers = _train_scores()
    print("\nFiles:")
    for path in (_draw_scores(layers, folder), _draw_alignments(folder)):
        print(f"  {path.resolve()}")


def _look_up() -> None:
    phones = {"Ann Jones": "555-1234", "Bob Smith": "555-5678"}
    boxes = {300: 30.0, 400: 40.0}
    print("Attention is look-up. The key matches:")
    print(f"  Bob Smith → {lookup(phones, 'Bob Smith').value}")
    print("No key matches, but two are near (inverse distance):")
    answer = lookup(boxes, 360, score=Distance("inverse"))
    shares = " + ".join(f"{weight:.2f} · {boxes[box]}" for box, weight in answer.weights.items())
    print(f"  box 360 → {shares} = {answer.value}")


class Reader(nn.Module):
    """Words and their places, projected to queries and keys; one attention between them."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.words = nn.Embedding(len(set(SENTENCE)), DIM)
        self.place = Sinusoidal(DIM)
        self.to_query, self.to_keys = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.attention = Attention(score)

    def forward(self) -> Tensor:
        """The weights [q k]."""
        names = sorted(set(SENTENCE))
        x = self.place(self.words(torch.tensor([names.index(word) for word in SENTENCE])))
        weights = self.attention(self.to_query(x), self.to_keys(x), x).weights
        assert isinstance(weights, Tensor)
        return weights


def _train_scores() -> dict[str, Reader]:
    """Each score learns the same thing: every word looks at the word before it (the first one at itself)."""
    scores: dict[str, Score] = {
        "cosine, β = 1": Cosine(),
        "additive": Additive(DIM, DIM, DIM),
        "location": Location(DIM, len(SENTENCE)),
        "general": General(DIM, DIM),
        "dot": Dot(),
        "scaled dot": ScaledDot(),
    }
    print(f"\nSix scores learn to look at the word before, {STEPS} steps each, on “{' '.join(SENTENCE)}”:\n")
    print(f"  {'score':14} parameters   weight on the right word, before → after")
    target = (torch.arange(len(SENTENCE)) - 1).clamp(min=0)
    readers = {}
    for name, score in scores.items():
        torch.manual_seed(0)
        reader = Reader(score)
        optimiser = torch.optim.Adam(reader.parameters(), lr=0.01)
        shares = []
        for _ in range(STEPS):
            right = reader().gather(-1, target.unsqueeze(-1))
            shares.append(right.mean().item())
            optimiser.zero_grad()
            (-right.log().mean()).backward()
            optimiser.step()
        print(f"  {name:14} {sum(p.numel() for p in score.parameters()):10}   {shares[0]:.2f} → {shares[-1]:.2f}")
        readers[name] = reader
    print("\n  Cosine scores lie in [−1, 1], so without a key strength β > 1 its softmax cannot focus.")
    return readers


def _draw_scores(readers: dict[str, Reader], folder: Path) -> Path:
    with trace(nn.ModuleDict(readers), rows=SENTENCE, columns=SENTENCE) as seen, torch.no_grad():
        for reader in readers.values():
            reader()
    weights = torch.stack([torch.as_tensor(record.weights) for record in seen.values()])
    axes = heatmaps(weights, SENTENCE, SENTENCE, titles=list(readers))
    save(axes, folder / "scores.png")
    seen.save(folder / "scores.json")
    return folder / "scores.png"


def _draw_alignments(folder: Path) -> Path:
    aligns: dict[str, Align] = {
        "softmax": Softmax(),
        "softmax, T = 0.5": Softmax(0.5),
        "1.5-entmax": Entmax(1.5),
        "sparsemax": Sparsemax(),
        "top-2": TopK(2),
        "local-m, D = 1": LocalMonotonic(1),
    }
    scores = (2 * torch.randn(len(SENTENCE))).expand(len(SENTENCE), -1)  # the same row for every query
    weights = torch.stack([align(scores).weights[3] for align in aligns.values()])  # of the fourth query
    save(heatmap(weights, list(aligns), SENTENCE), folder / "alignments.png")
    return folder / "alignments.png"

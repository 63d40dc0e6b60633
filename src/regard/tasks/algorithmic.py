"""Algorithmic sequences: bits come in, and the bits that an algorithm makes of them should go out.

Training sequences are drawn on the device, inside the loss, from the noise that the trainer seeds at each step: every
step sees new ones, nothing is stored, and a resumed run draws the same. Held-out sequences are drawn once on the CPU,
from seeds of their own, so they are the same everywhere.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import trace
from regard.base import ConfigError, check_settings, to_json
from regard.base.ranges import BatchSize, Count, Few, OneOf, Seed
from regard.data import RowBatches
from regard.data.algorithms import PROBLEMS, NGrams, Problem, RepeatCopy, Sequences, Sort, optimal_bits
from regard.data.pictures import Rows
from regard.explanation import Displayed, Explanation, Tape
from regard.nn import device_of, evaluating
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.inputs import checked_texts
from regard.tasks.samples import evenly_by_size
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

SEEDS = {"valid": 1, "test": 2}  # of the held-out sequences
AT_ONCE = 256  # sequences that are evaluated together
LOG_2 = 0.6931471805599453
NAMES = {"copy": "copy", "repeat_copy": "repeat copy", "recall": "associative recall", "ngrams": "dynamic N-grams",
         "sort": "priority sort"}  # fmt: skip


@dataclass(frozen=True)
class AlgorithmicConfig:
    """Which algorithm, on sequences of which sizes, in which batches."""

    problem: Annotated[str, OneOf(PROBLEMS)] = "copy"  # what has to be done with the sequence
    bits: Few = 8  # in a vector
    shortest: Few = 1  # vectors of a sequence, or items of associative recall; at least
    longest: Few = 20  # the same, at most
    repeats: Few = 10  # repeat copy: how often the sequence goes out, at most
    kept: Few = 16  # sort: how many vectors go out
    tested: tuple[Few, ...] = (10, 20, 30, 50, 120)  # lengths that an evaluation looks at one by one
    batch_size: BatchSize = 64  # sequences in a batch
    held_out: Count = 1024  # sequences of the test set, and of the validation set

    def __post_init__(self) -> None:
        check_settings(self, "task")
        least = 2 if self.problem == "recall" else 1
        if not least <= self.shortest <= self.longest:
            got = f"shortest={self.shortest} and longest={self.longest}"
            raise ConfigError("the lengths of sequences", got=got, expected=f"{least} ≤ shortest ≤ longest")
        if self.problem == "ngrams" and (self.bits != 1 or self.shortest != self.longest or self.shortest < 7):
            got = f"bits={self.bits}, shortest={self.shortest}, longest={self.longest}"
            raise ConfigError("N-grams", got=got, expected="one bit and one length of 7 or more", cure="the paper: 200")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        sizes = f"{self.shortest}–{self.longest}" if self.shortest != self.longest else f"{self.longest}"
        return f"{NAMES[self.problem]}, length {sizes}"

    def data_set(self) -> str:
        """The name of the data set."""
        return NAMES[self.problem]

    def rules(self) -> Problem:
        """The problem with these sizes."""
        sizes = {"bits": self.bits, "shortest": self.shortest, "longest": self.longest}
        kind = PROBLEMS[self.problem]
        if kind is RepeatCopy:
            return RepeatCopy(**sizes, repeats=self.repeats)
        if kind is Sort:
            return Sort(**sizes, kept=self.kept)
        return kind(**sizes)


@dataclass(frozen=True)
class AlgorithmicSettings:
    """What an evaluation looks at: what `--set` may change."""

    lengths: tuple[Few, ...] | None = None  # tested one by one; None: those of the run
    sequences: Count = 256  # of each tested length
    seed: Seed = 0  # of the sequences of each tested length

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class Computed(Displayed):
    """What a model makes of a sequence: the bits that go out, how many of them are wrong, and what the heads did."""

    source: str
    text: str  # the vectors that go out
    reference: str  # the right ones
    wrong: int  # bits
    bits: float  # the cost of the right answer
    probabilities: Tensor  # [t o] of a one, at the steps that count
    explanations: tuple[Explanation, ...] = ()

    @property
    def described(self) -> str:
        """The answer in words: the vectors, and how many bits are wrong."""
        verdict = "right" if not self.wrong else f"{self.wrong} wrong bits"
        return f"{self.text} ({verdict}, {self.bits:.2f} bits)"


def length_points(details: Mapping[str, Any], *, key: str) -> list[Point]:
    """A figure at each tested length."""
    return [Point(str(row["length"]), float(row["figure"]), int(row["count"])) for row in details[key]]


def _chart(figure: str, title: str, y: str) -> EvaluationChart:
    key = f"{figure}_by_length"
    return EvaluationChart(key, title, "length", y, partial(length_points, key=key), things="sequences", decimals=2)


class Algorithmic(StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    config: AlgorithmicConfig

    display = Display(
        figures=(
            Figure("bits", "bits a sequence", 3, better="lower"),
            Figure("wrong", "wrong bits, %", better="lower"),
            Figure("right", "sequences wholly right, %", better="higher"),
            Figure("optimal", "bits a sequence of the best estimator", 3),
            Figure("wrong_50", "wrong bits at length 50, %", better="lower"),
            Figure("wrong_120", "wrong bits at length 120, %", better="lower"),
        ),
        counts="bits",
        unit="sequences",
        things="sequences",
        examples="Sequences",
        overview=(Column("ours, bits a sequence", ("bits",), 3), Column("wrong bits, %", ("wrong",), 2)),
        table=(Column("bits a sequence", ("bits",), 3), Column("wrong bits, %", ("wrong",), 2)),
        more=(
            Column("wholly right, %", ("right",), 1), Column("wrong at 50, %", ("wrong_50",), 2),
            Column("wrong at 120, %", ("wrong_120",), 2), Column("optimal, bits", ("optimal",), 2),
        ),
        signatures={"bits": "Bits"},
        note="Bits are the cross entropy of a whole answer, summed over its bits; guessing costs one for each of them.",
        charts=(
            _chart("wrong", "Wrong bits by length", "wrong bits, %"),
            _chart("bits", "Cost by length", "bits a sequence"),
            _chart("right", "Sequences wholly right by length", "sequences, %"),
        ),
    )  # fmt: skip
    settings_type = AlgorithmicSettings

    def __init__(self, config: AlgorithmicConfig) -> None:
        self.config = config
        self.problem = config.rules()

    def complete(self, model_config: Any) -> Any:
        """A model needs to know how many channels come in and how many bits go out."""
        return replace(model_config, inputs=self.problem.inputs, outputs=self.problem.outputs)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Numbers of sequences, without end. An epoch is one batch, and each number stands for a new sequence."""
        size = self.config.batch_size
        return RowBatches(size, batch_size=size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """The cost in bits of new sequences, summed over the batch."""
        sequences = self.problem.draw(len(batch.rows), device=batch.rows.device)
        return Loss(costs(model(sequences.inputs).logits, sequences).sum())

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def splits(self) -> dict[str, Sequences]:
        """The held-out sequences: they have the lengths of training, and seeds of their own."""
        return {name: self.drawn(self.config.held_out, seed) for name, seed in SEEDS.items()}

    def drawn(self, count: int, seed: int, length: int | None = None) -> Sequences:
        """Sequences of a seed, drawn on the CPU; of one length, or of the lengths of training."""
        generator = torch.Generator().manual_seed(seed)
        return self.problem.draw(count, length=length, generator=generator)

    def split(self, name: str) -> Sequences:
        """The sequences of a split."""
        if name not in self.splits:
            cure = "training sequences are drawn step by step, and not kept"
            raise ConfigError(f"no split {name!r}", expected=f"one of {', '.join(self.splits)}", cure=cure)
        return self.splits[name]

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: AlgorithmicSettings | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Bits a sequence, wrong bits and sequences wholly right; in a full evaluation also at each tested length."""
        settings = settings or AlgorithmicSettings()
        sequences, start = self.split(split), time.perf_counter()
        logits = self.logits(model, sequences, progress)
        figures = answer_figures(logits, sequences)
        if isinstance(self.problem, NGrams):
            figures["optimal"] = optimal_bits(sequences).mean().item()
        details: dict[str, Any] = {}
        if full:
            lengths = self.config.tested if settings.lengths is None else settings.lengths
            rows: dict[str, list[dict[str, float]]] = {"bits": [], "wrong": [], "right": []}
            for length in lengths:
                longer = self.drawn(settings.sequences, 1000 * (settings.seed + 1) + length, length)
                measured = answer_figures(self.logits(model, longer, None), longer)
                figures[f"wrong_{length}"] = measured["wrong"]
                for name, value in measured.items():
                    rows[name].append({"length": length, "figure": value, "count": settings.sequences})
            details = {
                "split": split,
                "count": len(sequences.inputs),
                "seconds": time.perf_counter() - start,
                "settings": to_json(settings),
                "signatures": {"bits": f"bits a sequence of {len(sequences.inputs):,}: {self.config.describe_data()}"},
                "outputs": [vectors_text(row) for row in answers(logits, sequences)],
                **({f"{name}_by_length": points for name, points in rows.items()} if lengths else {}),
            }
        return Evaluation(figures, best="bits", higher_is_better=False, details=details)

    def logits(self, model: nn.Module, sequences: Sequences, progress: Progress | None) -> Float[Tensor, "b t o"]:
        """What a model says about sequences, on the CPU."""
        device, chunks = device_of(model), []
        with evaluating(model):
            for inputs in torch.split(sequences.inputs, AT_ONCE):
                chunks.append(model(inputs.to(device)).logits.float().cpu())
                if progress is not None:
                    progress("sequences", sum(map(len, chunks)), len(sequences.inputs))
        return torch.cat(chunks)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def predict(
        self, model: nn.Module, inputs: Sequence[str], settings: AlgorithmicSettings | None = None
    ) -> list[list[Computed]]:
        """The answer to each sequence: bits that are typed in, or "seed=7" or "seed=7 length=20" for random ones."""
        return [[self.compute(model, self.sequence(text), text)] for text in checked_texts(inputs)]

    def sequence(self, text: str) -> Sequences:
        """The sequence of a text, or a random one."""
        words = dict(word.partition("=")[::2] for word in text.split() if "=" in word)
        if not words:
            return self.problem.read(text)
        if not {"seed"} <= set(words) <= {"seed", "length"} or not all(w.isdecimal() for w in words.values()):
            raise ConfigError("a random sequence", got=repr(text), expected="seed=7, or seed=7 length=20")
        length = int(words["length"]) if "length" in words else None
        least = 7 if isinstance(self.problem, NGrams) else 2 if self.config.problem == "recall" else 1
        if length is not None and not least <= length <= 1000:
            raise ConfigError("the length of a random sequence", got=length, expected=f"{least} to 1000")
        return self.drawn(1, int(words["seed"]) % 2**63, length)

    @torch.no_grad()
    def compute(self, model: nn.Module, sequences: Sequences, source: str) -> Computed:
        """The answer to one sequence, with what the heads did."""
        steps = int(sequences.scored[0].nonzero().max()) + 1  # without what comes after the end
        inputs = sequences.inputs[:, :steps]
        with evaluating(model), trace(model, may_be_empty=True) as seen:
            out = model(inputs.to(device_of(model)))
        cut = Sequences(inputs, sequences.targets[:, :steps], sequences.scored[:, :steps], sequences.lengths)
        logits = out.logits.float().cpu()
        [answer], [right] = answers(logits, cut), answers(cut.targets - 0.5, cut)
        chances = torch.sigmoid(logits[0])
        tape = tape_of(seen, inputs[0], chances, out, title=source) if len(seen) else ()
        return Computed(
            source, vectors_text(answer), vectors_text(right), int((answer != right).sum()),
            costs(logits, cut).item(), chances[cut.scored[0]], tape,
        )  # fmt: skip

    def choose(self, split: str, count: int) -> list[int]:
        """Sequences of all lengths."""
        return evenly_by_size(self.split(split).lengths.tolist(), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These sequences, what should go out, and what the model says."""
        made = []
        for number in numbers:
            name = f"{self.config.describe_data()}, {split} sequence {number}"
            answer = self.compute(model, self.split(split).take(slice(number, number + 1)), name)
            made.append(Example(name, answer.reference, answer.described, answer))
        return made


def costs(logits: Float[Tensor, "b t o"], sequences: Sequences) -> Float[Tensor, " b"]:
    """The cross entropy of each sequence in bits, over the steps that count."""
    nats = F.binary_cross_entropy_with_logits(logits.float(), sequences.targets, reduction="none").sum(-1)
    return nats.masked_fill(~sequences.scored, 0.0).sum(1) / LOG_2


def answer_figures(logits: Float[Tensor, "b t o"], sequences: Sequences) -> dict[str, float]:
    """Bits a sequence, wrong bits in percent, and sequences without a wrong bit in percent."""
    wrong = ((logits > 0) != (sequences.targets > 0.5)) & sequences.scored.unsqueeze(-1)
    asked = sequences.scored.sum() * logits.shape[-1]
    return {
        "bits": costs(logits, sequences).double().mean().item(),
        "wrong": 100 * (wrong.sum() / asked).item(),
        "right": 100 * (~wrong.flatten(1).any(1)).double().mean().item(),
    }


def answers(logits: Float[Tensor, "b t o"], sequences: Sequences) -> list[Tensor]:
    """The bits [n o] of each sequence at the steps that count."""
    return [(row > 0)[scored].int() for row, scored in zip(logits, sequences.scored, strict=True)]


def vectors_text(bits: Tensor) -> str:
    """Vectors as a text; single bits stand together.

    >>> vectors_text(torch.tensor([[0, 1], [1, 1]]))
    '01 11'
    """
    return ("" if bits.shape[1] == 1 else " ").join("".join(map(str, row)) for row in bits.tolist())


def tape_of(seen: Any, inputs: Tensor, chances: Tensor, out: Any, *, title: str) -> tuple[Tape, ...]:
    """What came in, was added, written, read and said at each step, as in the figures of the paper.

    Weights of the heads are [h t n], those that read first. Vectors that were added and read are scaled to 0 to 1.
    """
    [heads] = [record.weights[0] for record in seen.values()][:1]
    num_writes = out.adds.shape[-1] * len(heads) // (out.adds.shape[-1] + out.reads.shape[-1])
    num_reads = len(heads) - num_writes
    rows: dict[str, Any] = {"inputs": inputs, "adds": _scaled(out.adds[0])}
    rows |= {f"write {number}": heads[num_reads + number] for number in range(num_writes)}
    rows |= {"outputs": chances, "reads": _scaled(out.reads[0])}
    rows |= {f"read {number}": heads[number] for number in range(num_reads)}
    return (Tape({name: _array(row) for name, row in rows.items()}, title=title),)


def _scaled(vectors: Tensor) -> Tensor:
    vectors = vectors.float().cpu()
    return (vectors - vectors.min()) / (vectors.max() - vectors.min()).clamp(min=1e-9)


def _array(row: Any) -> Any:
    return row.float().cpu().numpy() if isinstance(row, Tensor) else row


TASK = TaskEntry(
    "algorithmic", Algorithmic, AlgorithmicConfig, verb="compute", inputs="bit patterns", example='"seed=7 length=10"'
)

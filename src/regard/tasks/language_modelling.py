"""Language modelling: predict the next token of a running text; perplexity and bits per character say how well.

A model of this task takes tokens and a state, and gives logits and the state after them:

    model.initial_state(batch: int) -> state            before the first token of `batch` texts
    model(tokens [b t], state) -> (logits [b t v], state)        logits[:, i] are of the token after tokens[:, i]
    model(tokens [b t], None)                           the same from the initial state

- A state is a tensor, or a tuple (named or not) of states. Each tensor has the batch as its first axis, and no shape
  changes from call to call: what grows, such as a tape or a memory, has places for all that it can hold, and a mask.
- Reading a text in one call and in several, with the state handed on, gives the same logits; with a memory of so many
  cells, up to that number. `initial_state(batch, memory=…)` may offer another number for evaluation.
- Logits may be `regard.nn.AdaptiveLogits`, which make losses without a number for each token of the vocabulary.
- logits[:, i] depend on tokens up to i alone. Padding (<pad>, 0) stands at the end of a sentence, and its logits are
  not looked at.
- The task detaches the state between batches, keeps it in fixed places, and saves it with every checkpoint; a stream
  that begins gets the initial state. Nothing in `forward` may wait for the device: a captured graph holds it.
- A model that reads windows from all over the text (task.context=windows) also has `state_after(tokens [b n])`: the
  state after some words that are not predicted, <pad> where there is none.
- A layer whose attention a trace sees once for each token ([b q k] or [b h q k], k the latest tokens) is drawn.

The first token of a sentence follows <bos>; in a stream, whose line ends are <eos>, the first follows <eos>.
`regard.models.LanguageModel` has the embedding and the output; the config of a model needs a field `vocabulary`.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, check_settings, followed, inside, to_json, write_atomically
from regard.base.ranges import Alpha, BatchSize, Count, Few, Natural, UserFiles, VocabularySize
from regard.data import (
    EOS,
    PAD,
    Pair,
    StreamBatch,
    StreamBatches,
    TextUnits,
    TokenBatch,
    TokenBatches,
    UnitKind,
    WindowBatches,
    cut_text,
    evaluation_batches,
    files_of,
    read_text,
    stream_windows,
)
from regard.datasets import DATASETS, choose
from regard.metrics.language import bits_per_character, cut_after, perplexity, perplexity_by_position
from regard.nn import device_of, evaluating, predicted_losses
from regard.tasks.carried_state import CarriedState, state_after
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.generation import Generated, Generation, continue_text, initial_state, read_tokens
from regard.tasks.inputs import checked_split, checked_texts
from regard.tasks.language_loss import language_loss
from regard.tasks.running_text import characters_of, first_lines, lines_told, short_lines
from regard.tasks.samples import evenly_by_size
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry, changed_settings

FILES = "files"  # the corpus that is a file of the user
UNITS = "units.json"  # in a run folder
SPLITS = ("train", "valid", "test")
Context = Literal["sentence", "stream", "windows"]
EDGES = (1, 5, 10, 20, 40)  # the chart by position: the last position of each group but the last one
Nats = NDArray[np.float64]


@dataclass(frozen=True)
class LanguageModellingConfig:
    """Which text, in which units; with which context; in which batches; how to continue a text."""

    corpus: str = "agreement"  # of DATASETS, or "files"
    text_file: UserFiles | None = None  # corpus="files": a text, in one file or several; its end is held out
    units: UnitKind = "spaced"  # words, with punctuation split off; spaced: split at white space; or characters
    vocabulary: VocabularySize | None = None  # the most frequent units, None for all
    min_count: Count = 1  # units that are rarer are unknown
    lower: bool = False  # all letters small
    context: Context = "sentence"  # a line begins anew; stream: the state goes on; windows: so, read in any order
    batch_size: BatchSize = 64  # sentences, streams side by side, or windows
    length: Few = 35  # stream, windows: tokens of a window, through which gradients flow
    shifted: bool = False  # stream: each epoch begins at another place of the text, drawn anew
    consistency: Alpha = 0.0  # α of R-Drop (Liang et al. 2021): two passes with different dropout shall agree; 0: one
    before: Natural = 0  # windows: words before each one, which make its state
    max_length: Count | None = None  # sentence: longer ones are left out of training
    fit: Few | None = None  # sentence: pad lengths to multiples of this, for few shapes with train.capture
    generation: Generation = field(default_factory=Generation)

    def __post_init__(self) -> None:
        check_settings(self, "task")

    def describe_data(self) -> str:
        """The data in a few words, for tables."""
        return f"{self.corpus}, {'characters' if self.units == 'characters' else 'words'}"

    def data_set(self) -> str:
        """The name of the data set on the menu."""
        return self.corpus


def position_points(details: Mapping[str, Any]) -> list[Point]:
    """Perplexity by the place of a token in its line."""
    return [Point(each["places"], each["perplexity"], each["size"]) for each in details["positions"]]


class LanguageModelling(StoredTask):
    """A running text in, the probability of each next token out."""

    display = Display(
        figures=(
            Figure("perplexity", "perplexity", 2, better="lower"),
            Figure("bits_per_character", "bits per character", 3, better="lower"),
            Figure("loss", "loss (nats a token)", 4, better="lower"),
            Figure("tokens_per_second", "tokens a second", 0, better="higher"),
        ),
        counts="perplexity",
        unit="tokens",
        things="tokens",
        examples="Continued texts",
        overview=(Column("ours, perplexity", ("perplexity",)), Column("bits a character", ("bits_per_character",), 3)),
        table=(Column("perplexity", ("perplexity",), 2),),
        more=(Column("bits per character", ("bits_per_character",), 3),),
        signatures={"perplexity": "Perplexity"},
        note="Perplexity is per token, <eos> included; bits are per character, spaces and line ends included.",
        charts=(
            EvaluationChart("positions", "Perplexity by position", "place in the line", "perplexity",
                  position_points, "tokens"),
        ),
        speed="tokens_per_second",
    )  # fmt: skip
    settings_type = Generation
    several_files = True

    def __init__(
        self,
        config: LanguageModellingConfig,
        *,
        units: TextUnits | None = None,
        splits: dict[str, str] | None = None,
    ) -> None:
        if config.corpus != FILES:
            choose(DATASETS, "text", config.corpus, setting="task.corpus", besides=(FILES,))
        self.config, self._carried = config, CarriedState()
        if splits is not None:
            self.splits = splits
        if units is not None:
            self.units = units

    @cached_property
    def splits(self) -> dict[str, str]:
        """The text of each split, read when it is first asked for."""
        config = self.config
        if config.corpus != FILES:
            splits: dict[str, str] = choose(DATASETS, "text", config.corpus, setting="task.corpus").read()
            return splits
        if config.text_file is None:
            raise ConfigError("corpus='files' needs a file", got="none", cure="pass --source text.txt")
        named = [config.text_file] if isinstance(config.text_file, str) else config.text_file
        return cut_text(read_text(files_of([followed(path, cure="name it again by --source") for path in named])))

    @cached_property
    def units(self) -> TextUnits:
        """The units of the training text, unless they were given."""
        config = self.config
        return TextUnits.train(
            self.splits["train"],
            kind=config.units,
            max_size=config.vocabulary,
            min_count=config.min_count,
            lower=config.lower,
        )

    def complete(self, model_config: Any) -> Any:
        """The model's settings with the size of the vocabulary."""
        return replace(model_config, vocabulary=len(self.units))

    def save(self, folder: Path) -> None:
        """Writes the units."""
        write_atomically(folder / UNITS, self.units.to_json())

    @classmethod
    def load(cls, folder: Path, config: LanguageModellingConfig) -> "LanguageModelling":
        """The task of a run folder, with its own units; its text is read only when asked for."""
        path = inside(folder / UNITS)
        try:
            return cls(config, units=TextUnits.from_json(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure="restore it, or train anew") from error

    @classmethod
    def from_files(
        cls, config: LanguageModellingConfig, source: UserFiles, target: UserFiles | None
    ) -> LanguageModellingConfig:
        """The settings for a text of the user, which is not tokenised; `--set task.units=spaced` if it is."""
        if target is not None:
            raise ConfigError("a text has one side", got=f"--target {target}", cure="leave --target out")
        units: UnitKind = "words" if config.units == "spaced" else config.units
        return replace(config, corpus=FILES, text_file=source, units=units)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> TokenBatches | StreamBatches | WindowBatches:
        """Sentences of like length, shuffled; or windows: of all streams, in the order of the text, or in any order."""
        config, self._carried = self.config, CarriedState()
        if config.context == "windows":
            return WindowBatches(
                self.units.stream(self.splits["train"]), windows=config.batch_size, length=config.length,
                before=config.before, seed=seed, rank=rank, world=world,
            )  # fmt: skip
        if config.context == "stream":
            if world > 1:
                cure = "train in one process, or set task.context=sentence"
                raise ConfigError("task.context=stream", got=f"{world} processes", expected="one", cure=cure)
            tokens = self.units.stream(self.splits["train"])
            return StreamBatches(
                tokens, streams=config.batch_size, length=config.length, shifted=config.shifted, seed=seed
            )
        limit = math.inf if config.max_length is None else config.max_length
        pairs = (pair for pair in self._pairs(self.splits["train"]) if len(pair[1]) <= limit)
        fit = None if config.fit is None else (-(-config.batch_size // world), config.fit)
        return TokenBatches(pairs, batch_size=config.batch_size, seed=seed, rank=rank, world=world, fit=fit)

    def loss(self, model: Callable[..., Any], batch: TokenBatch | StreamBatch) -> Loss:
        """Cross entropy, summed over the tokens of the batch; a stream goes on where the batch before it ended."""
        return language_loss(partial(self._predict, model), batch, consistency=self.config.consistency)

    def _predict(self, model: Callable[..., Any], batch: TokenBatch | StreamBatch) -> Any:
        """The logits of all tokens of a batch; the state of streams is carried on."""
        if isinstance(batch, TokenBatch):
            return model(batch.inputs, None)[0]
        if batch.before is not None:
            return model(batch.inputs, state_after(model, batch.before))[0]
        start = model.initial_state(len(batch.inputs))  # type: ignore[attr-defined]
        logits, state = model(batch.inputs, self._carried.before(start, batch.begins))
        self._carried.keep(state)
        return logits

    def carried(self) -> dict[str, Tensor]:
        """The state of all streams."""
        return self._carried.tensors()

    def load_carried(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes over the state of all streams."""
        self._carried.load(tensors)

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: Generation | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Perplexity and bits per character of a split, or of a text file; every token is predicted exactly once."""
        how, (name, text) = settings or self.config.generation, self._named_text(split)
        text = first_lines(text, self.units, how.evaluated) if how.evaluated else text
        with evaluating(model):
            start = time.perf_counter()
            nats = self.token_nats(model, text, how, progress)
            seconds = time.perf_counter() - start
        count = sum(map(len, nats))
        total = math.fsum(float(line.sum()) for line in nats)
        characters = count if self.units.kind == "characters" else characters_of(text)
        figures = {"perplexity": perplexity(total, count), "loss": total / count}
        figures["bits_per_character"] = bits_per_character(total, characters)
        details: dict[str, Any] = {}
        if full:
            figures["tokens_per_second"] = count / seconds
            context = "sentence" if self.config.context == "sentence" else how.describe_stream()
            signature = f"{count:,} tokens, {len(self.units):,} units, context: {context}"
            details = {
                "split": name, "count": count, "seconds": seconds, "settings": to_json(how), "characters": characters,
                "how": f"context: {context}",
                "signatures": {"perplexity": signature, "bits_per_character": f"{characters:,} characters"},
                "positions": [group._asdict() for group in perplexity_by_position(nats, EDGES)],
                "outputs": lines_told(text, nats),
            }  # fmt: skip
        return Evaluation(figures, "perplexity", higher_is_better=False, details=details)

    def token_nats(self, model: nn.Module, text: str, how: Generation, progress: Progress | None = None) -> list[Nats]:
        """−log p of each token, line by line in the order of the text."""
        device = device_of(model)
        if self.config.context == "sentence":
            how.check_for_sentences()
            pairs = list(self._pairs(text))
            lines: list[Nats] = [np.empty(0)] * len(pairs)
            longest = max(len(pair[1]) for pair in pairs) + 1
            done = 0
            for batch in evaluation_batches(pairs, max_tokens=how.rows * min(longest, 64)):
                logits, _ = model(batch.inputs.to(device), None)
                nats = predicted_losses(logits, batch.targets.to(device), ignore=PAD).double().cpu().numpy()
                for row, number, length in zip(nats, batch.indices, batch.target_lengths.tolist(), strict=True):
                    lines[number] = row[:length]
                done += len(batch)
                if progress is not None:
                    progress("sentences", done, len(pairs))
            return lines
        tokens = self.units.stream(text)
        return cut_after(self._stream_nats(model, tokens, how, device, progress), tokens, end=EOS)

    def _stream_nats(
        self, model: Any, tokens: NDArray[np.int64], how: Generation, device: torch.device, progress: Progress | None
    ) -> Nats:
        """The same for a running text, with a state that goes on: [n] in the order of the text."""
        rows = min(how.rows, len(tokens))
        state, columns, done = initial_state(model, rows, how.memory), [], 0
        for batch in stream_windows(tokens, streams=rows, length=how.length or self.config.length):
            logits, state = model(batch.inputs.to(device), state)
            columns.append(predicted_losses(logits, batch.targets.to(device), ignore=PAD).double().cpu().numpy())
            done += batch.count
            if progress is not None:
                progress("tokens", done, len(tokens))
        size = -(-len(tokens) // rows)
        return np.concatenate(columns, axis=1)[:, :size].reshape(-1)[: len(tokens)]

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def default_settings(self) -> Generation:
        """How the run continues texts."""
        generation: Generation = self.config.generation
        return generation

    def settings(self, **changes: Any) -> Generation:
        """How the run continues texts, with changes such as temperature=0.8."""
        changed: Generation = changed_settings(self.config.generation, changes)
        return changed

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one text; anything else that can be walked through holds several."""
        return isinstance(inputs, str)

    def predict(
        self, model: nn.Module, inputs: Iterable[str], settings: Generation | None = None
    ) -> list[list[Generated]]:
        """The continuation of each text, with what each token attended to."""
        how, by_sentence = settings or self.config.generation, self.config.context == "sentence"
        texts = checked_texts(inputs)
        return [[continue_text(model, text, self.units, how, by_sentence=by_sentence)] for text in texts]

    def read(self, model: nn.Module, text: str) -> list[str]:
        """Lets the model read a text, and gives its tokens, with the one that the first of them follows."""
        return read_tokens(model, text, self.units, by_sentence=self.config.context == "sentence")

    def choose(self, split: str, count: int) -> list[int]:
        """Lines of all lengths, evenly from the shortest to the longest, among those of up to 40 tokens."""
        return evenly_by_size([len(line) for line in self._short_lines(split)], count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """The first half of each line, the line as it is, and how the model continues its half."""
        lines = [self._short_lines(split)[number] for number in numbers]
        halves = [line[: len(line) // 2] for line in lines]
        starts = ["".join(half) if self.units.kind == "characters" else " ".join(half) for half in halves]
        predictions = [best[0] for best in self.predict(model, starts)]
        wholes = ["".join(line) if self.units.kind == "characters" else " ".join(line) for line in lines]
        return [
            Example(start, whole, prediction.text, prediction)
            for start, whole, prediction in zip(starts, wholes, predictions, strict=True)
        ]

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _short_lines(self, split: str) -> list[list[str]]:
        return short_lines(self.splits[checked_split(split, self.splits)], self.units)

    def _pairs(self, text: str) -> Iterator[Pair]:
        return (([], sentence) for sentence in self.units.sentences(text))

    def _named_text(self, split: str) -> tuple[str, str]:
        """A split by name, or the text of a file, under a name that a result file can have."""
        path = Path(split)
        if split not in SPLITS and (path.is_file() or path.suffix):
            return "file_" + re.sub(r"[^\w.-]", "_", path.stem), read_text(path)
        return checked_split(split, self.splits), self.splits[split]


TASK = TaskEntry(
    "language_modelling",
    LanguageModelling,
    LanguageModellingConfig,
    verb="generate",
    inputs="text",
    example='"the start of a text"',
    inherits=True,
)

"""Reading words: pictures of single words in, their letters out, and where each letter was looked for.

A model takes pictures [b 1 h w] and widths [b]. One that `attends` writes letter by letter (`encode`, `init_state`,
`step`); another one says a letter or nothing at each column, and is trained by CTC.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import ConfigError, fill, to_json
from regard.data import BOS, EOS, PAD, UNK, RowBatches
from regard.data.pictures import Rows
from regard.data.weather import standardised
from regard.data.words import encode_words, join_pictures, spelled
from regard.explanation import Displayed, Explanation, Places
from regard.metrics.reading import character_errors, word_accuracy
from regard.nn import device_of, evaluating, token_loss
from regard.nn.ctc import best_path, ctc_losses
from regard.tasks.display import Column, Display, Figure
from regard.tasks.inputs import Picture, as_bytes, as_pixels, picture_name
from regard.tasks.labels import percent
from regard.tasks.samples import evenly
from regard.tasks.search import Search, changed_search, check_search, find_best, search_signature
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry
from regard.tasks.word_pictures import FILES, HeldOut, Shown, ShownWords, WordReadingConfig, targets_of, vocabulary_size

Pixels = NDArray[np.uint8]
SETS = ("iiit5k", "icdar2015", "icdar2015_alnum", "rendered", "curved", FILES)  # test sets of a full evaluation
LABELS = {"iiit5k": "IIIT5K", "icdar2015": "ICDAR 2015", "icdar2015_alnum": "ICDAR 2015, letters and digits",
          "rendered": "renders", "curved": "curved renders", FILES: "own files"}  # fmt: skip


@dataclass(frozen=True)
class ReadWord(Displayed):
    """What a model reads in one picture; `weights` [t i j] belong to its letters and to places of the picture."""

    name: str
    text: str
    score: float
    probability: float
    weights: NDArray[np.float32] | None = field(repr=False, compare=False)
    image: Pixels | None = field(default=None, repr=False, compare=False)  # [h w 3]
    attended: bool = True  # whether the weights are those of attention, and not of columns that said a letter

    @property
    def source(self) -> str:
        """The name of the picture."""
        return self.name

    @property
    def described(self) -> str:
        """The word and how sure the model is."""
        return f"{self.text} ({percent(self.probability)})"

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """The place of each letter; nothing where no letter was read."""
        if self.weights is None or self.image is None or not self.text:
            return ()
        told = "where each letter was looked for" if self.attended else "which columns said each letter"
        return (Places(self.image, self.weights, tuple(self.text), title=f"{self.text}: {told}"),)


class WordReading(ShownWords, StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("accuracy", "words right, %", better="higher"),
            Figure("character_errors", "character errors, %", better="lower"),
            *(Figure(f"accuracy_{name}", f"words right, {LABELS[name]}, %", better="higher", signature="accuracy")
              for name in SETS),
            *(Figure(f"character_errors_{name}", f"character errors, {LABELS[name]}, %", better="lower",
                     signature="character_errors") for name in SETS),
            Figure("loss", "loss (nats a word)", 3, better="lower"),
            Figure("words_per_second", "words a second", 0, better="higher"),
        ),
        counts="accuracy",
        unit="words",
        things="words",
        examples="Words",
        overview=(Column("ours, words right in %", ("accuracy",)),),
        table=(Column("IIIT5K / ICDAR 2015, %", ("accuracy_iiit5k", "accuracy_icdar2015")),
               Column("renders / curved, %", ("accuracy_rendered", "accuracy_curved"))),
        more=(Column("ICDAR 2015, letters and digits, %", ("accuracy_icdar2015_alnum",)),
              Column("character errors, IIIT5K / ICDAR, %", ("character_errors_iiit5k", "character_errors_icdar2015"))),
        report=(Column("words right, %", ("accuracy",)), Column("character errors, %", ("character_errors",)),
                Column("IIIT5K / ICDAR 2015, %", ("accuracy_iiit5k", "accuracy_icdar2015")),
                Column("renders / curved, %", ("accuracy_rendered", "accuracy_curved"))),
        signatures={"accuracy": "Words right", "character_errors": "Character errors"},
        note="No lexicon; case and whatever is not a letter or digit do not count.",
        speed="words_per_second",
    )  # fmt: skip
    settings_type = Search
    unused_settings = ("max_ratio", "temperature", "top_k", "top_p", "seed", "coverage_penalty", "replace_unknown",
                       "places", "impl", "precision")  # fmt: skip

    def __init__(self, config: WordReadingConfig, **given: Any) -> None:
        super().__init__(config, **given)
        check_search(config.search)

    def complete(self, model_config: Any) -> Any:
        """The model's settings with the letters and the size of the pictures."""
        if self.config.keep_ratio and getattr(model_config, "rectify", False):
            cure = "set task.keep_ratio=false, or model.rectify=false"
            raise ConfigError("a straightened word fills its picture", got="keep_ratio=true, rectify=true", cure=cure)
        facts = {"vocabulary": vocabulary_size(), "height": self.config.height, "width": self.config.width}
        return fill(model_config, facts)

    @classmethod
    def from_files(cls, config: WordReadingConfig, source: str, target: str | None) -> WordReadingConfig:
        """The settings for the user's own words: a file with lines picture<TAB>text, and the folder of the pictures."""
        if target is None:
            raise ConfigError("texts need their pictures", got="no --target", cure="add --target FOLDER")
        return replace(config, real=(FILES,), table=source, folder=target)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> RowBatches:
        """Numbers of words, without end. An epoch is one batch, and each number stands for a new word."""
        size = self.config.batch_size
        return RowBatches(size, batch_size=size, seed=seed, rank=rank, world=world)

    def loss(self, model: Callable[..., Any], batch: Rows) -> Loss:
        """The cost of new words in nats, summed: of their letters and ends, or of all ways to spread them (CTC)."""
        with torch.no_grad(), torch.autocast(batch.rows.device.type, enabled=False):
            shown = self.training_words(len(batch.rows), batch.rows.device)
        return Loss(self._cost(model, shown))

    def _cost(self, model: Callable[..., Any], shown: Shown) -> Float[Tensor, ""]:
        inputs, targets = targets_of(shown.labels)
        out = model(shown.images, inputs, shown.widths)
        if out.lengths is None:
            return token_loss(out.logits, targets, smoothing=self.config.smoothing, ignore=PAD)
        lengths = (shown.labels >= 0).sum(1)
        return ctc_losses(out.logits, out.lengths, inputs[:, 1:], lengths, blank=PAD).sum()

    # ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def evaluate(
        self,
        model: nn.Module,
        split: str,
        settings: Search | None = None,
        *,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Words right and character errors of a split; a full evaluation of "test" reads all test sets."""
        how, words = settings or self.config.search, self.held_out(split)
        start = time.perf_counter()
        outputs = self.texts(model, words, how, progress)
        seconds = time.perf_counter() - start
        figures = {
            "accuracy": word_accuracy(outputs, words.texts),
            "character_errors": character_errors(outputs, words.texts),
            "loss": self._mean_cost(model, words),
        }
        details: dict[str, Any] = {}
        if full:
            missing = {}
            for name in self.tests[1:] if split == "test" else ():
                why = self.missing(name)
                if why:
                    missing[f"accuracy_{name}"] = why
                    continue
                others = self.held_out(name)
                read = outputs if others is words else self.texts(model, others, how, progress)
                figures[f"accuracy_{name}"] = word_accuracy(read, others.texts)
                figures[f"character_errors_{name}"] = character_errors(read, others.texts)
            figures["words_per_second"] = len(outputs) / max(seconds, 1e-9)
            how_read = search_signature(how) if getattr(model, "attends", True) else "best path"
            measured = f"no lexicon, lower case, letters and digits|{how_read}"
            details = {
                "split": split,
                "count": len(outputs),
                "seconds": seconds,
                "settings": to_json(how),
                "signatures": {"accuracy": measured, "character_errors": f"edit distance by letters|{measured}"},
                "outputs": outputs,
                "missing": missing,
            }
        return Evaluation(figures, best="accuracy", details=details)

    def texts(self, model: Any, words: HeldOut, how: Search, progress: Progress | None = None) -> list[str]:
        """What a model reads in held-out pictures."""
        return [self._text(model, best[0]) for best in self._read(model, words, how, progress)]

    @torch.no_grad()
    def _read(self, model: Any, words: HeldOut, how: Search, progress: Progress | None = None) -> list[list[Any]]:
        """The best hypotheses of each picture; of a model that does not attend, logits [t v] of its columns."""
        check_search(how)
        device, made = device_of(model), []
        at_once = max(1, how.batch_tokens // (32 * how.beams))
        with evaluating(model):
            for first in range(0, len(words.texts), at_once):
                rows = slice(first, first + at_once)
                widths = words.widths[rows].to(device)
                images = standardised(words.images[rows].to(device).float() / 255, widths)
                if not model.attends:
                    nothing = torch.full((len(images), 1), BOS, device=device)
                    out = model(images, nothing, widths)
                    logits, lengths = out.logits.float().cpu(), out.lengths.tolist()
                    logits[..., [BOS, EOS, UNK]] = -torch.inf  # a column says a letter or nothing
                    made += [[row[:length]] for row, length in zip(logits, lengths, strict=True)]
                else:
                    state = model.init_state(model.encode(images, widths))
                    made += find_best(
                        model, state, how, batch=len(images), bos=BOS, eos=EOS, max_steps=self.config.longest + 1,
                        min_steps=how.min_steps, forbidden=(PAD, BOS, UNK),
                    )  # fmt: skip
                if progress is not None:
                    progress("words", len(made), len(words.texts))
        return made

    def _text(self, model: Any, read: Any) -> str:
        return spelled(read.tokens if model.attends else best_path(read, blank=PAD)[0])

    def _mean_cost(self, model: nn.Module, words: HeldOut) -> float:
        """Nats a word, without smoothing, of the words that are not too long."""
        device, longest = device_of(model), self.config.longest
        kept = [number for number, text in enumerate(words.texts) if len(text) <= longest]
        labels = encode_words([words.texts[number] for number in kept], longest)
        total = torch.zeros((), dtype=torch.float64, device=device)
        plain = self if not self.config.smoothing else WordReading(replace(self.config, smoothing=0.0))
        with evaluating(model):
            for first in range(0, len(kept), 512):
                chunk = slice(first, first + 512)
                rows = torch.tensor(kept[chunk])
                widths = words.widths[rows].to(device)
                images = standardised(words.images[rows].to(device).float() / 255, widths)
                total += plain._cost(model, Shown(images, widths, labels[chunk].to(device)))
        return total.item() / max(len(kept), 1)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def default_settings(self) -> Search:
        """The search of the run."""
        return self.config.search

    def settings(self, **changes: Any) -> Search:
        """The search of the run with changes, such as beam=5."""
        return changed_search(self.config.search, changes, unused=self.unused_settings)

    def predict(
        self, model: nn.Module, inputs: Sequence[Picture], settings: Search | None = None
    ) -> list[list[ReadWord]]:
        """What is written in each picture of a word, best first, with the place of each letter.

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3].
        """
        images = [as_pixels(picture) for picture in inputs]
        if not images:
            return []
        names = [picture_name(picture, number) for number, picture in enumerate(inputs, 1)]
        words = self.fitted(join_pictures(images, [""] * len(images), names))
        return self._predicted(model, words, images, settings or self.config.search)

    def _predicted(self, model: Any, words: HeldOut, images: Sequence[Pixels], how: Search) -> list[list[ReadWord]]:
        """The words of held-out pictures; `images` are what their drawings show."""
        by_picture = self._read(model, words, how)
        predictions = []
        for number, (best, image) in enumerate(zip(by_picture, images, strict=True)):
            places = self._places(model, words, number)
            predictions.append([self._word(model, read, words.names[number], image, places) for read in best])
        return predictions

    def _word(self, model: Any, read: Any, name: str, image: Pixels, places: "_Frame") -> ReadWord:
        text = self._text(model, read)
        if model.attends:
            weights = None if read.weights is None else read.weights[: len(text)].float().cpu().numpy()
            on_picture = None if weights is None else places.spread(weights.reshape(len(weights), *model.grid))
            return ReadWord(name, text, read.score, float(np.exp(read.log_prob)), on_picture, image)
        chances = read.softmax(-1)
        numbers, spans = best_path(read, blank=PAD)
        weights = np.zeros((len(numbers), *model.grid), np.float32)
        for row, (number, (first, last)) in enumerate(zip(numbers, spans, strict=True)):
            said = chances[first:last, number]
            weights[row, 0, first:last] = (said / said.sum()).numpy()
        log_prob = float(chances.amax(-1).log().sum())
        return ReadWord(name, text, log_prob, float(np.exp(log_prob)), places.spread(weights), image, attended=False)

    @torch.no_grad()
    def _places(self, model: Any, words: HeldOut, number: int) -> "_Frame":
        """Where the places of a model lie in a picture."""
        with evaluating(model):
            rows, device = slice(number, number + 1), device_of(model)
            image = words.images[rows].to(device).float() / 255
            positions = model.positions(standardised(image, words.widths[rows].to(device)))
        share = float(words.widths[number]) / self.config.width
        return _Frame(None if positions is None else positions[0].float().cpu().numpy(), share)

    def choose(self, split: str, count: int) -> list[int]:
        """Words at even distances."""
        return evenly(len(self.held_out(split).texts), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These words of a split, what is written there, and what the model reads."""
        words = self.held_out(split)
        rows = list(numbers)
        chosen = HeldOut(
            words.images[rows], words.widths[rows], tuple(words.texts[row] for row in rows),
            tuple(words.names[row] for row in rows),
        )  # fmt: skip
        images = [
            as_bytes(picture[..., : int(width)]) for picture, width in zip(chosen.images, chosen.widths, strict=True)
        ]
        predicted = self._predicted(model, chosen, images, self.config.search) if rows else []
        return [
            Example(f"{split}: {best.name}", text, best.described, best, image)
            for text, (best, *_), image in zip(chosen.texts, predicted, images, strict=True)
        ]

    def describe_model(self, model_config: Any) -> str:
        """How letters come out: "attention", "attention_2d" or "ctc"."""
        return str(getattr(model_config, "decoder", ""))


@dataclass(frozen=True)
class _Frame:
    """How places of a model lie over a picture: in a raster, or, after a spline, where each of many points was read."""

    positions: NDArray[np.float32] | None  # [r c 2], x and y from −1 to 1
    share: float  # of the width of what the model saw that is the picture; the rest is padding

    def spread(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Weights [t i j] over the places → weights over a raster of the picture."""
        if self.positions is None:
            columns = max(1, round(weights.shape[2] * self.share))
            return weights[:, :, :columns]
        rows, wide = 8, weights.shape[2]
        high, across = self.positions.shape[:2]
        x = np.clip((self.positions[..., 0] + 1) / 2 * wide, 0, wide - 1).astype(int)
        y = np.clip((self.positions[..., 1] + 1) / 2 * rows, 0, rows - 1).astype(int)
        column = np.arange(across) * weights.shape[2] // across
        row = np.arange(high) * weights.shape[1] // high
        made = np.zeros((len(weights), rows, wide), np.float32)
        for number, each in enumerate(weights):
            np.add.at(made[number], (y, x), each[row[:, None], column[None, :]])
        shares: NDArray[np.float32] = made / np.maximum(made.sum((1, 2), keepdims=True), 1e-9)
        return shares


TASK = TaskEntry("word_reading", WordReading, WordReadingConfig, verb="read", inputs="pictures", example="word.png")

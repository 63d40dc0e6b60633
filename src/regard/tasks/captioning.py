"""Captioning: pictures with captions in, captions with weights out, judged by BLEU, METEOR and CIDEr."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import ConfigError, check_settings, inside, read_stored, to_json, write_atomically
from regard.base.ranges import BatchSize, Count, Few, Share, VocabularySize, Weight
from regard.data import BOS, EOS, PAD, UNK, Pair, TokenBatch, TokenBatches, Vocabulary, evaluation_batches
from regard.data.captions import CaptionBatches, caption_tokens
from regard.data.images import Box, fit_box, read_image
from regard.decode import Hypothesis
from regard.explanation import Displayed, Explanation, Places
from regard.metrics.captions import caption_bleu, score_captions
from regard.nn import device_of, evaluating, token_loss
from regard.tasks.caption_loss import doubly_stochastic, hard_loss, twice
from regard.tasks.captioned_pictures import FILES, CaptionedPictures, CaptionedPictureSettings
from regard.tasks.display import Column, Display, Figure
from regard.tasks.fast_search import fast_search, rules_of
from regard.tasks.inputs import Picture, as_pixels, checked_split, picture_name
from regard.tasks.samples import evenly
from regard.tasks.search import Search, changed_search, check_search, find_best, search_signature
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry

VOCABULARY = "vocabulary.json"
FORBIDDEN = (PAD, BOS, UNK)
BLEU = tuple(f"bleu_{order}" for order in range(1, 5))
BLEU_BREVITY = tuple(f"{key}_brevity" for key in BLEU)


@dataclass(frozen=True)
class CaptioningConfig(CaptionedPictureSettings):
    """Which pictures, seen how; in which batches; by which loss; how to search and to judge."""

    vocabulary: VocabularySize | None = None  # the most frequent words, None for all
    min_count: Count = 5  # words that are rarer are unknown
    max_words: Count = 40  # longer captions are left out of training; none is written
    batch_size: BatchSize = 64  # captions
    captions_per_picture: BatchSize = 1  # of a batch; a picture is shown and encoded once for all of them
    fit: Few | None = None  # pad lengths to multiples of this, batches to their full size: few shapes for train.capture
    smoothing: Share = 0.0  # of labels
    doubly_stochastic: Weight = 1.0  # λ (14): every place shall get a weight of about 1 in all; 0: none
    reward: Weight = 0.1  # λ_r (11), hard attention; 0.1 is the code's
    entropy: Weight = 0.002  # λ_e (11), hard attention
    baseline: Literal["moving", "expected"] = "moving"  # hard: the paper's; what the caption has with expected places
    search: Search = field(default_factory=lambda: Search(beams=5, length_penalty=0.0))
    select: str = "bleu_4"  # the figure that decides which checkpoint is kept
    metrics: tuple[str, ...] = ("bleu", "cider", "meteor")  # with `full`

    def __post_init__(self) -> None:
        check_settings(self, "task")


@dataclass(frozen=True)
class Caption(Displayed):
    """One caption. `weights` [t k] belong to `tokens` × the places of `grid`, which lies on `box` of the picture."""

    name: str
    text: str
    tokens: list[str]
    score: float
    log_prob: float
    finished: bool
    grid: tuple[int, int]  # rows and columns
    box: Box  # of the picture, in its pixels
    weights: NDArray[np.float32] | None = field(repr=False, compare=False)
    image: NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)  # [h w 3]

    @property
    def source(self) -> str:
        """The name of the picture."""
        return self.name

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """Where the model looked for each word; nothing for a model without attention."""
        if self.weights is None or self.image is None or not self.tokens:
            return ()
        maps = self.weights.reshape(len(self.tokens), *self.grid)
        return (Places(self.image, maps, tuple(self.tokens), box=self.box, title="where it looked, word by word"),)


class Captioning(CaptionedPictures, StoredTask):
    """Pictures in, captions out."""

    display = Display(
        figures=(
            *(Figure(key, f"BLEU-{key[-1]}", better="higher", signature="bleu") for key in BLEU),
            *(Figure(f"{key}_brevity", f"BLEU-{key[-1]}, with brevity penalty", better="higher",
                     signature="bleu_brevity") for key in BLEU),
            Figure("meteor", "METEOR", better="higher"),
            Figure("cider", "CIDEr-D", better="higher"),
            Figure("words", "words a caption"),
            Figure("exact", "captions that are a reference", 3, better="higher"),
            Figure("loss", "loss (nats a token)", 3, better="lower"),
            Figure("captions_per_second", "captions a second", 1, better="higher"),
        ),
        counts="bleu_4",
        unit="tokens",
        things="pictures",
        examples="Captions",
        overview=(Column("ours, BLEU-1 to 4", BLEU), Column("METEOR", ("meteor",), 2)),
        table=(Column("BLEU-1 / 2 / 3 / 4", BLEU),),
        more=(
            Column("with brevity penalty", BLEU_BREVITY), Column("METEOR", ("meteor",), 2),
            Column("CIDEr-D", ("cider",)), Column("words", ("words",)),
        ),
        report=(
            Column("BLEU-1 to 4", BLEU), Column("with brevity penalty", BLEU_BREVITY),
            Column("METEOR", ("meteor",)), Column("CIDEr-D", ("cider",)),
        ),
        signatures={"bleu": "BLEU", "bleu_brevity": "With brevity penalty", "meteor": "METEOR", "cider": "CIDEr-D"},
        note="BLEU is without brevity penalty, as in the paper.",
        list_note="BLEU without brevity penalty, as the paper has it; docs/papers/show_attend_tell.md has it with.",
        speed="captions_per_second",
    )  # fmt: skip
    settings_type = Search
    unused_settings = ("max_ratio", "temperature", "top_k", "top_p", "seed", "coverage_penalty", "replace_unknown")
    tests = ("test", "valid")
    config: CaptioningConfig

    def __init__(self, config: CaptioningConfig, *, vocabulary: Vocabulary | None = None, **pictures: Any) -> None:
        super().__init__(config, **pictures)
        check_search(config.search)
        if not config.captions_per_picture <= config.batch_size:
            got, expected = config.captions_per_picture, f"1 to task.batch_size, which is {config.batch_size}"
            raise ConfigError("task.captions_per_picture", got=got, expected=expected)
        if vocabulary is not None:
            self.vocabulary = vocabulary

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training captions."""
        lines = (caption_tokens(text) for texts in self.splits["train"].captions for text in texts)
        return Vocabulary.build(lines, max_size=self.config.vocabulary, min_count=self.config.min_count)

    def complete(self, model_config: Any) -> Any:
        """The model's settings with what the data decide."""
        if self.config.baseline == "expected" and getattr(model_config, "align", "sample") != "sample":
            what = "task.baseline=expected is for places that are drawn"
            raise ConfigError(what, got=f"model.align={model_config.align}", cure="set model.align=sample")
        facts: dict[str, Any] = {"vocabulary": len(self.vocabulary), "feature_dim": self.features.encoder.channels}
        if self.config.finetune:
            facts |= {"encoder": self.config.encoder.name, "encoder_stage": self.config.encoder.stage}
        return replace(model_config, **facts)

    def begin(self, model: nn.Module) -> None:
        """Gives an encoder that is to be fine-tuned its published weights, before the first step of a new run."""
        if self.config.finetune:
            encoder: Any = model.encoder
            encoder.load_state_dict(self.features.encoder.state_dict())

    def save(self, folder: Path) -> None:
        """Writes what new captions need: the words, and the encoder if it is not in the model."""
        write_atomically(folder / VOCABULARY, self.vocabulary.to_json())
        if not self.config.finetune:
            self.features.save(folder)

    @classmethod
    def load(cls, folder: Path, config: CaptioningConfig) -> "Captioning":
        """The task of a run folder."""
        vocabulary = read_stored(folder / VOCABULARY, Vocabulary.from_json, expected="the words of the run")
        encoder_folder = folder if inside(folder / "encoder.safetensors").exists() else None
        return cls(config, vocabulary=vocabulary, folder=encoder_folder)

    @classmethod
    def from_files(cls, config: CaptioningConfig, source: str, target: str | None) -> CaptioningConfig:
        """The settings for the user's own pictures: a file with lines picture<TAB>caption, and the folder of both."""
        if target is None:
            raise ConfigError("captions need their pictures", got="no --target", cure="add --target FOLDER")
        return replace(config, dataset=FILES, caption_file=source, folder=target)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def each(self) -> int:
        """How many captions of a picture stand in a batch: not more than any picture has."""
        return min(self.config.captions_per_picture, max(map(len, self.splits["train"].captions)))

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> TokenBatches | CaptionBatches:
        """Captions of like length, each with the number of its picture as `source`; those of a picture together."""
        config, each, pairs = self.config, self.each, self._encoded("train", self.config.max_words)
        options: dict[str, Any] = {"batch_size": config.batch_size, "seed": seed, "rank": rank, "world": world}
        if each > 1:
            return CaptionBatches(pairs, captions=each, fit=config.fit, **options)
        fit = None if config.fit is None else (-(-config.batch_size // world), config.fit)
        return TokenBatches(pairs, source_eos=False, fit=fit, **options)

    def loss(self, model: Callable[..., Any], batch: TokenBatch) -> Loss:
        """Σ over captions of −log p(y | a) + λ Σ_i (1 − Σ_t α_ti)², which is N times the paper's mean (14).

        No step after <eos> counts. Hard attention adds the gradient of its reward (11) in place of what the sampled
        places cannot carry; with baseline="expected" each caption is read in both ways, and counts half in each.
        """
        config, targets = self.config, batch.targets
        shown = self.training_views(batch.source[:: self.each, 0])
        in_pairs = config.baseline == "expected"
        if in_pairs:
            inputs, targets = (twice(words, each=self.each) for words in (batch.inputs, targets))
            out = model(shown, inputs, in_pairs=True)
        else:
            out = model(shown, batch.inputs)
        share = 0.5 if in_pairs else 1.0
        total = share * token_loss(out.logits, targets, smoothing=config.smoothing, ignore=PAD)
        figures = {"cross_entropy": total}
        if config.doubly_stochastic and out.expected is not None:
            apart = share * doubly_stochastic(out.expected, targets != PAD)
            total = total + config.doubly_stochastic * apart
            figures["doubly_stochastic"] = apart
        if out.log_prob is not None:
            options: dict[str, Any] = {"reward": config.reward, "entropy": config.entropy}
            more, hard = hard_loss(out, targets, pairs=self.each if in_pairs else None, **options)
            total, figures = total + more, figures | hard
        return Loss(total, figures)

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
        """Loss and greedy BLEU of a split; with `full` the beam, and every measure of `metrics`."""
        checked_split(split, self.splits)
        self.features.progress = progress or self.features.progress
        how = settings or (self.config.search if full else Search(1))
        with evaluating(model):
            start = time.perf_counter()
            shown = self.features_of(model, split, progress)
            encoding = time.perf_counter() - start
            figures = {"loss": self._mean_loss(model, split, shown, how)}
            start = time.perf_counter() - encoding
            hypotheses = [beams[0] for beams in self._search(model, shown, how, progress)]
            seconds = time.perf_counter() - start
        outputs = [self.vocabulary.decode(one.tokens) for one in hypotheses]
        references = [[caption_tokens(text) for text in captions] for captions in self.splits[split].captions]
        details: dict[str, Any] = {}
        if full:
            judged = score_captions(outputs, references, metrics=self.config.metrics)
            figures |= judged.figures
            texts = [" ".join(words) for words in outputs]
            details = {"split": split, "count": len(outputs), "seconds": seconds, "outputs": texts}
            details |= {"settings": to_json(how), "how": f"beam {how.beams}"}
            found_by = "|".join([search_signature(how), *_places_signature(model, how)])
            signatures = {name: f"{signature}|{found_by}" for name, signature in judged.signatures.items()}
            details |= {"signatures": signatures, "missing": judged.missing}
            figures["captions_per_second"] = len(outputs) / seconds
        else:
            scored = caption_bleu(outputs, references)
            figures |= {f"bleu_{n}": value for n, value in enumerate(scored.plain, 1)}
            figures["bleu_4_brevity"] = scored.penalised[3]
        figures["words"] = sum(map(len, outputs)) / len(outputs)
        exact = [words in captions for words, captions in zip(outputs, references, strict=True)]
        figures["exact"] = sum(exact) / len(exact)
        return Evaluation(figures, best=self.config.select, details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def default_settings(self) -> Search:
        """The search of the run."""
        return self.config.search

    def settings(self, **changes: Any) -> Search:
        """The search of the run with changes, such as beam=8 or places="argmax"."""
        return changed_search(self.config.search, changes, unused=self.unused_settings)

    @torch.no_grad()
    def predict(
        self, model: nn.Module, inputs: Sequence[Picture], settings: Search | None = None
    ) -> list[list[Caption]]:
        """The best captions of each picture, best first, with weights [t k].

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3].
        """
        images = [as_pixels(picture) for picture in inputs]
        if not images:
            return []
        views = torch.from_numpy(np.stack([self.features.view(image) for image in images])).to(device_of(model))
        with evaluating(model):
            shown = views if self.config.finetune else self.features.encode(views)
            by_picture = self._search(model, shown, settings or self.config.search)
        names = [picture_name(picture, number) for number, picture in enumerate(inputs, 1)]
        return [
            [self._caption(name, image, hypothesis) for hypothesis in hypotheses]
            for name, image, hypotheses in zip(names, images, by_picture, strict=True)
        ]

    def describe_model(self, model_config: Any) -> str:
        """How a model looks: "soft", "hard", or "mean" for the twin without attention."""
        if getattr(model_config, "mean_pooled", False):
            return "mean"
        align = str(getattr(model_config, "align", ""))
        return {"softmax": "soft", "sample": "hard"}.get(align, align)

    def choose(self, split: str, count: int) -> list[int]:
        """Pictures at even distances."""
        return evenly(len(self.splits[checked_split(split, self.splits)]), count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These pictures, the captions that people gave them, and the model's."""
        captions = self.splits[checked_split(split, self.splits)]
        images = [read_image(captions.read(captions.names[number]), name=captions.names[number]) for number in numbers]
        made = []
        for number, image, best in zip(numbers, images, self.predict(model, images), strict=True):
            source = f"{self.config.describe_data()}, {split}: {captions.names[number]}"
            made.append(Example(source, "\n".join(captions.captions[number]), best[0].text, best[0], image))
        return made

    def _caption(self, name: str, image: NDArray[np.uint8], hypothesis: Hypothesis) -> Caption:
        tokens = self.vocabulary.decode(hypothesis.tokens)
        weights = None if hypothesis.weights is None else hypothesis.weights[: len(tokens)].float().cpu().numpy()
        box = fit_box(*image.shape[:2], whole=self.config.encoder.whole)
        places = 0 if weights is None else weights.shape[1]
        grid = (isqrt(places), isqrt(places)) if self.config.finetune else self.features.grid  # a square view
        facts = (hypothesis.score, hypothesis.log_prob, hypothesis.finished)
        return Caption(name, " ".join(tokens), tokens, *facts, grid, box, weights, image)

    def _search(
        self, model: Any, shown: Shaped[Tensor, "..."], how: Search, progress: Progress | None = None
    ) -> list[list[Hypothesis]]:
        """The best captions of what is shown, `batch_tokens` / beams / 4 pictures at a time."""
        check_search(how)
        hypotheses: list[list[Hypothesis]] = []
        fast = fast_search(model, how, count=len(shown))
        if fast is not None and (
            how.impl != "auto" or fast.has_shapes(lambda copy: copy.init_state(copy.encode(shown[:1]), **_looking(how)))
        ):
            told = None if progress is None else lambda done: progress("captions", done, len(shown))
            rules = rules_of(how, FORBIDDEN)
            hypotheses = fast.of_pictures(shown, rules, how, self.config.max_words, _looking(how), told)
            fast.trim()
            return hypotheses
        for chunk in torch.split(shown, max(1, how.batch_tokens // (4 * how.beams))):
            state = model.init_state(model.encode(chunk), **_looking(how))
            options: dict[str, Any] = {
                "batch": len(chunk), "bos": BOS, "eos": EOS, "max_steps": self.config.max_words,
                "min_steps": how.min_steps, "forbidden": FORBIDDEN,
            }  # fmt: skip
            hypotheses += find_best(model, state, how, **options)
            if progress is not None:
                progress("captions", len(hypotheses), len(shown))
        return hypotheses

    def _mean_loss(self, model: nn.Module, split: str, shown: Float[Tensor, "m k d"], how: Search) -> float:
        """Nats a token, without smoothing."""
        device = device_of(model)
        total, count = torch.zeros((), dtype=torch.float64, device=device), 0
        for batch in evaluation_batches(self._encoded(split), max_tokens=4096, source_eos=False):
            here = batch.to(device)
            out = model(shown[here.source[:, 0]], here.inputs, **_looking(how))
            total += token_loss(out.logits, here.targets, ignore=PAD)
            count += batch.num_tokens
        return total.item() / max(count, 1)

    # ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _encoded(self, split: str, limit: int | None = None) -> Iterator[Pair]:
        for number, captions in enumerate(self.splits[split].captions):
            for text in captions:
                words = caption_tokens(text)
                if limit is None or len(words) < limit:
                    yield [number], self.vocabulary.encode(words)


def _looking(how: Search) -> dict[str, str]:
    """What the model is called with, where the search says where hard attention looks."""
    return {} if how.places is None else {"at_test": how.places}


def _places_signature(model: nn.Module, how: Search) -> list[str]:
    """Where a model that draws places in training looked when it was judged; nothing for all others."""
    own = getattr(model, "at_test", None)
    return [] if own is None else [f"places:{how.places or own}"]


TASK = TaskEntry(
    "captioning", Captioning, CaptioningConfig, verb="caption", inputs="pictures", example="picture.png", inherits=True
)

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
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, check_settings, followed, inside, write_atomically
from regard.base.ranges import BatchSize, Count, Few, Margin, Share, VocabularySize, Weight
from regard.data import BOS, EOS, PAD, UNK, Pair, TokenBatch, TokenBatches, Vocabulary, evaluation_batches
from regard.data.captions import CaptionBatches, Captions, caption_tokens, read_captions, split_captions
from regard.data.images import Box, fit_box, read_image
from regard.datasets import DATASETS, choose
from regard.decode import Hypothesis
from regard.metrics.captions import caption_bleu, score_captions
from regard.nn.loss import token_loss
from regard.tasks.caption_loss import doubly_stochastic, hard_loss, twice
from regard.tasks.features import CHUNK, EncoderConfig, Viewer
from regard.tasks.search import Search, check_search, find_best, search_signature
from regard.tasks.task import Loss, Progress, Score

VOCABULARY = "vocabulary.json"
Picture = str | Path | bytes | NDArray[np.uint8]


@dataclass(frozen=True)
class CaptioningConfig:
    """Which pictures, seen how; in which batches; by which loss; how to search and to judge."""

    dataset: str = "flickr8k"  # of DATASETS, or "files"
    caption_file: str | None = None  # dataset="files": lines picture<TAB>caption, and the folder of the pictures
    folder: str | None = None
    on_bad: Literal["error", "drop"] = "error"  # lines that are broken
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    finetune: bool = False  # the encoder is part of the model and learns with it
    mirrored: bool = False  # training pictures are mirrored by chance
    jitter: Margin = 0  # finetune: training views are cut by chance from squares that are this many pixels larger
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
    metrics: tuple[str, ...] = ("bleu", "cider", "meteor", "meteor_exact_stem")  # with `full`

    def __post_init__(self) -> None:
        check_settings(self, "task")


@dataclass(frozen=True)
class Caption:
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


class Captioning:
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    def __init__(
        self,
        config: CaptioningConfig,
        *,
        splits: dict[str, Captions] | None = None,
        vocabulary: Vocabulary | None = None,
        encoder: Any | None = None,
        folder: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        _check(config)
        self.config = config
        self.viewer = Viewer(config.encoder, module=encoder, folder=folder, progress=progress)
        self._held: dict[tuple[str, torch.device], Tensor] = {}
        if splits is not None:
            self.splits = splits
        if vocabulary is not None:
            self.vocabulary = vocabulary

    @cached_property
    def splits(self) -> dict[str, Captions]:
        """Train, valid and test sets by name, read when they are first asked for; pictures are read later."""
        config = self.config
        if config.dataset != "files":
            splits: dict[str, Captions] = choose(DATASETS, "captions", config.dataset, setting="task.dataset").read()
            return splits
        if config.caption_file is None or config.folder is None:
            cure = "task.caption_file=captions.tsv task.folder=pictures"
            raise ConfigError("dataset='files' needs a file and a folder", cure=cure)
        again = "name them again by --source and --target"
        file, folder = (followed(path, cure=again) for path in (config.caption_file, config.folder))
        found = read_captions(file, folder, on_bad=config.on_bad)
        held_out = min(1000, max(1, len(found) // 10))
        return split_captions(found, valid=held_out, test=held_out)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training captions."""
        lines = (caption_tokens(text) for several in self.splits["train"].captions for text in several)
        return Vocabulary.build(lines, max_size=self.config.vocabulary, min_count=self.config.min_count)

    @property
    def tests(self) -> list[str]:
        """Names of test splits."""
        return ["test", "valid"]

    def fill(self, model_config: Any) -> Any:
        """A model's config with what the data decides."""
        if self.config.baseline == "expected" and getattr(model_config, "align", "sample") != "sample":
            what = "task.baseline=expected is for places that are drawn"
            raise ConfigError(what, got=f"model.align={model_config.align}", cure="model.align=sample")
        facts: dict[str, Any] = {"vocabulary": len(self.vocabulary), "feature_dim": self.viewer.encoder.channels}
        if self.config.finetune:
            facts |= {"encoder": self.config.encoder.name, "encoder_stage": self.config.encoder.stage}
        return replace(model_config, **facts)

    def begin(self, model: nn.Module) -> None:
        """Before the first step of a new run: an encoder that is to be fine-tuned starts from its published weights."""
        if self.config.finetune:
            encoder: Any = model.encoder
            encoder.load_state_dict(self.viewer.encoder.state_dict())

    def prepare(self, device: str | torch.device) -> float:
        """Encode all splits, or read them from disk, and hold them on the device; the seconds that it took."""
        start, here = time.perf_counter(), torch.empty(0, device=device).device  # "cuda" is cuda:0
        for split in self.splits:
            self._store(split, here)
        return time.perf_counter() - start

    def save(self, folder: Path) -> None:
        """What a run folder needs to caption new pictures: the words, and the encoder if it is not in the model."""
        write_atomically(folder / VOCABULARY, self.vocabulary.to_json())
        if not self.config.finetune:
            self.viewer.save(folder)

    @classmethod
    def load(cls, folder: Path, config: CaptioningConfig) -> "Captioning":
        """The task of a run folder."""
        path = inside(folder / VOCABULARY)
        try:
            vocabulary = Vocabulary.from_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RegardError(f"{path} cannot be read", got=str(error), cure="restore it, or train anew") from error
        kept = folder if inside(folder / "encoder.safetensors").exists() else None
        return cls(config, vocabulary=vocabulary, folder=kept)

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
        shown = self._shown(batch.source[:: self.each, 0])
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
        *,
        search: Search | None = None,
        full: bool = False,
        progress: Progress | None = None,
    ) -> Score:
        """Loss and greedy BLEU of a split; with `full` the beam, and every measure of `metrics`."""
        if split not in self.splits:
            raise ConfigError("unknown split", got=repr(split), expected=f"one of {', '.join(self.splits)}")
        how = search or (self.config.search if full else Search(1))
        was_training = model.training
        model.eval()
        try:
            start = time.perf_counter()
            shown = self._plain(model, split, progress)
            encoding = time.perf_counter() - start
            figures = {"loss": self._mean_loss(model, split, shown, how)}
            start = time.perf_counter() - encoding
            found = [several[0] for several in self._search(model, shown, how, progress)]
            seconds = time.perf_counter() - start
        finally:
            model.train(was_training)
        outputs = [self.vocabulary.decode(one.tokens) for one in found]
        references = [[caption_tokens(text) for text in several] for several in self.splits[split].captions]
        details: dict[str, Any] = {}
        if full:
            judged = score_captions(outputs, references, metrics=self.config.metrics)
            figures |= judged.figures
            texts = [" ".join(words) for words in outputs]
            details = {"split": split, "count": len(outputs), "seconds": seconds, "outputs": texts}
            found_by = "|".join([search_signature(how), *_places_signature(model, how)])
            signatures = {name: f"{signature}|{found_by}" for name, signature in judged.signatures.items()}
            details |= {"signatures": signatures, "missing": judged.missing}
            figures["captions_per_second"] = len(outputs) / seconds
        else:
            scored = caption_bleu(outputs, references)
            figures |= {f"bleu_{n}": value for n, value in enumerate(scored.plain, 1)}
            figures["bleu_4_brevity"] = scored.penalised[3]
        figures["words"] = sum(map(len, outputs)) / len(outputs)
        exact = [words in several for words, several in zip(outputs, references, strict=True)]
        figures["exact"] = sum(exact) / len(exact)
        return Score(figures, best=self.config.select, details=details)

    @torch.no_grad()
    def predict(
        self, model: nn.Module, pictures: Sequence[Picture], *, how: Search | None = None
    ) -> list[list[Caption]]:
        """The best captions of each picture (a path, bytes or an array [h w 3]), best first, with weights [t k]."""
        images = [p if isinstance(p, np.ndarray) else read_image(p) for p in pictures]
        if not images:
            return []
        device, was_training = _device(model), model.training
        views = torch.from_numpy(np.stack([self.viewer.view(image) for image in images])).to(device)
        model.eval()
        try:
            shown = views if self.config.finetune else self.viewer.encode(views)
            found = self._search(model, shown, how or self.config.search)
        finally:
            model.train(was_training)
        names = [str(p) if isinstance(p, str | Path) else f"picture {n}" for n, p in enumerate(pictures, 1)]
        return [
            [self._caption(name, image, one) for one in several]
            for name, image, several in zip(names, images, found, strict=True)
        ]

    def _caption(self, name: str, image: NDArray[np.uint8], found: Hypothesis) -> Caption:
        tokens = self.vocabulary.decode(found.tokens)
        weights = None if found.weights is None else found.weights[: len(tokens)].float().cpu().numpy()
        box = fit_box(*image.shape[:2], whole=self.config.encoder.whole)
        places = 0 if weights is None else weights.shape[1]
        grid = (isqrt(places), isqrt(places)) if self.config.finetune else self.viewer.grid  # a square view
        facts = (found.score, found.log_prob, found.finished)
        return Caption(name, " ".join(tokens), tokens, *facts, grid, box, weights, image)

    def _search(
        self, model: Any, shown: Shaped[Tensor, "..."], how: Search, progress: Progress | None = None
    ) -> list[list[Hypothesis]]:
        """The best captions of what is shown, `batch_tokens` / beams / 4 pictures at a time."""
        check_search(how)
        found: list[list[Hypothesis]] = []
        for part in torch.split(shown, max(1, how.batch_tokens // (4 * how.beams))):
            state = model.init_state(model.encode(part), **_looking(how))
            options: dict[str, Any] = {
                "batch": len(part), "bos": BOS, "eos": EOS, "max_steps": self.config.max_words,
                "min_steps": how.min_steps, "forbidden": (PAD, BOS, UNK),
            }  # fmt: skip
            found += find_best(model, state, how, **options)
            if progress is not None:
                progress("captions", len(found), len(shown))
        return found

    def _mean_loss(self, model: nn.Module, split: str, shown: Float[Tensor, "m k d"], how: Search) -> float:
        """Nats a token, without smoothing."""
        device = _device(model)
        total, count = torch.zeros((), dtype=torch.float64, device=device), 0
        for batch in evaluation_batches(self._encoded(split), max_tokens=4096, source_eos=False):
            here = batch.to(device)
            out = model(shown[here.source[:, 0]], here.inputs, **_looking(how))
            total += token_loss(out.logits, here.targets, ignore=PAD)
            count += batch.num_tokens
        return total.item() / max(count, 1)

    # ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _encoded(self, split: str, limit: int | None = None) -> Iterator[Pair]:
        for number, several in enumerate(self.splits[split].captions):
            for text in several:
                words = caption_tokens(text)
                if limit is None or len(words) < limit:
                    yield [number], self.vocabulary.encode(words)

    def _store(self, split: str, device: torch.device) -> Tensor:
        """What the model is shown of a split, on the device: features, or views where the encoder is in the model."""
        key = split, device
        if key not in self._held:
            config, captions = self.config, self.splits[split]
            train = split == "train"
            if config.finetune:
                margin = config.jitter if train else 0
                self._held[key] = self.viewer.views(captions, margin=margin, device=device)
            else:
                self._held[key] = self.viewer.features(captions, mirrored=config.mirrored and train, device=device)
        return self._held[key]

    def _plain(self, model: nn.Module, split: str, progress: Progress | None = None) -> Float[Tensor, "n k d"]:
        """Features of a split without chance: no mirror images, the middle of larger views; each picture once."""
        store = self._store(split, _device(model))[: len(self.splits[split])]
        if not self.config.finetune:
            return store
        margin = self.config.jitter // 2 if split == "train" else 0
        middle = slice(margin, margin + self.config.encoder.size)
        inside: Any = model
        seen: list[Tensor] = []
        for start in range(0, len(store), CHUNK):
            seen.append(inside.see(store[start : start + CHUNK, ..., middle, middle]))
            if progress is not None:
                progress("pictures", min(start + CHUNK, len(store)), len(store))
        return torch.cat(seen)

    def _shown(self, numbers: Int[Tensor, " b"]) -> Shaped[Tensor, "..."]:
        """What the model sees of some training pictures, with chance."""
        config, store, device = self.config, self._store("train", numbers.device), numbers.device
        coin = torch.randint(0, 2, numbers.shape, device=device) if config.mirrored else torch.zeros_like(numbers)
        if not config.finetune:
            return store[numbers + len(self.splits["train"]) * coin]
        size = torch.arange(config.encoder.size, device=device)
        down, right = torch.randint(0, config.jitter + 1, (2, len(numbers), 1), device=device)
        across = right + torch.where(coin.unsqueeze(1) > 0, size.flip(0), size)  # [b s]
        rows, columns = (down + size).view(-1, 1, len(size), 1), across.view(-1, 1, 1, len(size))
        return store[numbers.view(-1, 1, 1, 1), torch.arange(3, device=device).view(1, 3, 1, 1), rows, columns]


def _looking(how: Search) -> dict[str, str]:
    """What the model is called with, where the search says where hard attention looks."""
    return {} if how.places is None else {"at_test": how.places}


def _places_signature(model: nn.Module, how: Search) -> list[str]:
    """Where a model that draws places in training looked when it was judged; nothing for all others."""
    own = getattr(model, "at_test", None)
    return [] if own is None else [f"places:{how.places or own}"]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _check(config: CaptioningConfig) -> None:
    check_search(config.search)
    if config.dataset != "files":
        choose(DATASETS, "captions", config.dataset, setting="task.dataset", besides=("files",))
    if not config.captions_per_picture <= config.batch_size:
        got, expected = config.captions_per_picture, f"1 to task.batch_size, which is {config.batch_size}"
        raise ConfigError("task.captions_per_picture", got=got, expected=expected)
    if config.finetune and config.encoder.name != "efficientnet_lite0":
        raise ConfigError("task.finetune", got=config.encoder.name, expected="task.encoder.name=efficientnet_lite0")
    if config.jitter and not config.finetune:
        raise ConfigError("task.jitter", got="finetune=false", expected="0", cure="frozen features are made once")

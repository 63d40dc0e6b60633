"""Translation: parallel text in, BLEU out. Everything between the files of a corpus and a batch is here."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import nn

from regard.base import (
    ConfigError,
    RegardError,
    check_installed,
    check_settings,
    did_you_mean,
    followed,
    inside,
    shown,
    write_atomically,
)
from regard.base.ranges import BatchSize, Count, Few, Range, Share, VocabularySize
from regard.data import (
    PAD,
    Codec,
    Pair,
    ParallelText,
    SubwordCodec,
    TokenBatch,
    TokenBatches,
    WordCodec,
    codec_from_json,
    evaluation_batches,
    read_parallel,
    split_by_source,
    tokenize,
)
from regard.datasets import DATASETS, choose
from regard.metrics import bleu, bleu_by_length, chrf, tokenized_bleu
from regard.nn import token_divergence, token_loss
from regard.tasks.search import Prediction, Search, check_search, translate_texts
from regard.tasks.task import Loss, Progress, Score

Splits = dict[str, ParallelText]
Alpha = Annotated[float, Range(least=0, cure="the paper takes 5")]
SOURCE, TARGET = "source.json", "target.json"  # in a run folder


@dataclass(frozen=True)
class TranslationConfig:
    """Which text, in which units, in which batches; how to search and to judge."""

    corpus: str = "tatoeba_plain"  # of DATASETS, or "files"
    source: str = "en"
    target: str = "fr"
    source_file: str | None = None  # corpus="files": two files line by line, or one with tabs
    target_file: str | None = None
    on_bad: Literal["error", "drop"] = "error"  # lines that are broken
    max_words: Count | None = None  # longer training sentences are left out
    units: Literal["words", "bpe", "unigram"] = "words"
    vocabulary: VocabularySize | None = None  # words: the most frequent of each side, None: all; sub-words: None: 8000
    min_count: Count = 1  # words that are rarer are unknown
    joint: bool = False  # sub-words: one model for both languages
    lower: bool = False
    batch_size: BatchSize | None = None  # pairs
    batch_tokens: Count | None = 4096  # places on one side, padding included
    fit: Few | None = None  # pad lengths to multiples of this, batches to their full size: few shapes for train.capture
    smoothing: Share = 0.0  # of labels
    consistency: Alpha = 0.0  # α of R-Drop (Liang et al. 2021): two passes with different dropout shall agree; 0: one
    search: Search = field(default_factory=Search)
    edges: tuple[Count, ...] = (5, 10, 15, 20, 25, 30, 35, 40)  # buckets of BLEU by length

    def __post_init__(self) -> None:
        check_settings(self, "task")
        if list(self.edges) != sorted(set(self.edges)):
            raise ConfigError("task.edges", got=shown(self.edges), expected="rising lengths, such as 10,20,30")


class Translation:
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    def __init__(
        self, config: TranslationConfig, *, codecs: tuple[Codec, Codec] | None = None, splits: Splits | None = None
    ) -> None:
        _check(config)
        self.config, self._own = config, splits is not None
        if splits is not None:
            self.splits = splits
        if codecs is not None:
            self.codecs = codecs

    @cached_property
    def splits(self) -> Splits:
        """Train, valid and test sets by name, read when they are first asked for."""
        return read_splits(self.config)

    @cached_property
    def codecs(self) -> tuple[Codec, Codec]:
        """Source and target units, learnt from the training text unless they were given."""
        train = self.splits["train"]
        config = self.config
        if config.units == "words":
            options: dict[str, Any] = {
                "max_size": config.vocabulary, "min_count": config.min_count, "lower": config.lower
            }  # fmt: skip
            return WordCodec.train(train.source, **options), WordCodec.train(train.target, **options)
        size = config.vocabulary or 8000
        sides = [_cased(side, config.lower) for side in (train.source, train.target)]
        if config.joint:
            both = _subwords([*sides[0], *sides[1]], config.units, size)
            return both, both
        return _subwords(sides[0], config.units, size), _subwords(sides[1], config.units, size)

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of source and target vocabulary: what a model's config needs."""
        return len(self.codecs[0]), len(self.codecs[1])

    @property
    def tests(self) -> list[str]:
        """The test sets of the text, the usual one first: "test", or "test2016" and others."""
        return [name for name in self.splits if name.startswith("test")]

    def fill(self, model_config: Any) -> Any:
        """A model's config with the sizes of the vocabularies."""
        source, target = self.vocabularies
        return replace(model_config, source_vocabulary=source, target_vocabulary=target)

    def save(self, folder: Path) -> None:
        """The units of both languages."""
        source, target = self.codecs
        write_atomically(folder / SOURCE, source.to_json())
        if target is not source:
            write_atomically(folder / TARGET, target.to_json())

    @classmethod
    def load(cls, folder: Path, config: TranslationConfig) -> "Translation":
        """The task of a run folder, with its own units; its text is read only when asked for."""
        source = _codec(folder / SOURCE)
        shared = config.joint and config.units != "words"
        return cls(config, codecs=(source, source if shared else _codec(folder / TARGET)))

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> TokenBatches:
        """Training batches without end, for one of `world` ranks."""
        config = self.config
        return TokenBatches(
            self._encoded("train"),
            max_tokens=config.batch_tokens,
            batch_size=config.batch_size,
            seed=seed,
            rank=rank,
            world=world,
            on_long="drop",
            fit=None if config.fit is None else (config.batch_size or 16, config.fit),
        )

    def loss(self, model: Callable[..., Any], batch: TokenBatch) -> Loss:
        """Cross entropy with smoothed labels, summed over the tokens of the batch; with `consistency` of two passes."""
        smoothing, weight = self.config.smoothing, self.config.consistency
        if not weight:
            out = model(batch.source, batch.source_lengths, batch.inputs)
            return Loss(token_loss(out.logits, batch.targets, smoothing=smoothing, ignore=PAD))
        twice = (torch.cat([part, part]) for part in (batch.source, batch.source_lengths, batch.inputs, batch.targets))
        source, lengths, inputs, targets = twice
        logits = model(source, lengths, inputs).logits
        first, second = logits.chunk(2)
        apart = token_divergence(first, second, batch.targets != PAD)
        total = token_loss(logits, targets, smoothing=smoothing, ignore=PAD) / 2 + weight / 4 * apart
        return Loss(total, {"divergence": apart})

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
        """Loss and greedy BLEU (tokenised, lower-cased) of a split; with `full` the beam, and every score there is."""
        if full:
            check_installed("sacrebleu", what="an evaluation in BLEU and chrF")
        text = self.text(split)
        if progress is not None:
            progress("sentences", 0, text.size)
        device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        try:
            figures = {"loss": self._mean_loss(model, split, device)}
            how = search or (self.config.search if full else Search(1))
            start = time.perf_counter()
            found = [several[0] for several in self.predict(model, text.source, how=how, progress=progress)]
            seconds = time.perf_counter() - start
        finally:
            model.train(was_training)
        outputs = [prediction.text for prediction in found]
        references = self.references(split)
        tokens = [tokenize(output, lower=True) for output in outputs]
        wanted = [[tokenize(reference, lower=True) for reference in several] for several in references]
        measured = tokenized_bleu(tokens, wanted, lower=True)
        figures["tokenized_bleu"] = measured.score
        details: dict[str, Any] = {}
        if full:
            lower = self.config.lower
            first, character = bleu(outputs, references, lower=lower), chrf(outputs, references, lower=lower)
            figures |= {"bleu": first.score, "chrf": character.score, "sentences_per_second": len(found) / seconds}
            lengths = [len(tokenize(line)) for line in text.source]
            buckets = bleu_by_length(tokens, wanted, lengths, edges=self.config.edges, metric=tokenized_bleu)
            details = {
                "split": split,
                "sentences": len(found),
                "seconds": seconds,
                "signatures": {
                    "bleu": first.signature,
                    "chrf": character.signature,
                    "tokenized_bleu": measured.signature.replace("tok:given", "tok:regard"),
                },
                "lengths": [
                    {"low": b.low, "high": b.high, "count": b.count, "bleu": None if b.bleu is None else b.bleu.score}
                    for b in buckets
                ],
                "outputs": outputs,
            }
        return Score(figures, best="tokenized_bleu", details=details)

    def predict(
        self, model: nn.Module, texts: Sequence[str], *, how: Search | None = None, progress: Progress | None = None
    ) -> list[list[Prediction]]:
        """The best translations of each text, best first, with weights [t k]."""
        lines, search = _cased(texts, self._lowers), how or self.config.search
        found = translate_texts(model, lines, self.codecs, search, progress=progress)
        return [[replace(one, source=text) for one in several] for text, several in zip(texts, found, strict=True)]

    def references(self, split: str) -> list[list[str]]:
        """Every reference of every sentence of a split."""
        dataset = None if self._own else DATASETS.get(self.config.corpus)
        if dataset is not None and dataset.references is not None and split in ("valid", "test"):
            return dataset.references(split)
        return [[line] for line in self.text(split).target]

    def _mean_loss(self, model: nn.Module, split: str, device: torch.device) -> float:
        """Nats a token, without smoothing."""
        total, count = torch.zeros((), dtype=torch.float64, device=device), 0
        for batch in self._held_out(split):
            out = model(*(part.to(device) for part in (batch.source, batch.source_lengths, batch.inputs)))
            total += token_loss(out.logits, batch.targets.to(device), ignore=PAD)
            count += batch.num_tokens
        return total.item() / max(count, 1)

    def _held_out(self, split: str) -> list[TokenBatch]:
        return evaluation_batches(self._encoded(split), max_tokens=4096)

    @property
    def _lowers(self) -> bool:
        return self.config.lower and self.config.units != "words"  # words are lower-cased by their codec

    def text(self, split: str) -> ParallelText:
        """The pairs of a split; "newstest2008" to "newstest2014" are there for the languages that they have."""
        if re.fullmatch(r"newstest20\d\d", split):  # out of domain, for whoever asks
            languages = {"source": self.config.source, "target": self.config.target}
            return DATASETS["newstest"].read(split=split, **languages)  # type: ignore[no-any-return]
        if split in self.splits:
            return self.splits[split]
        known = [*self.splits, "newstest2014"]
        cure = did_you_mean(split, known)
        raise ConfigError("unknown split", got=repr(split), expected=f"one of {', '.join(known)}", cure=cure)

    def _encoded(self, split: str) -> Iterator[Pair]:
        text, (source, target) = self.text(split), self.codecs
        lower, limit = self._lowers, self.config.max_words if split == "train" else None
        for first, second in zip(_cased(text.source, lower), _cased(text.target, lower), strict=True):
            if limit is None or max(len(first.split()), len(second.split())) <= limit:
                yield source.encode_text(first), target.encode_text(second)


def read_splits(config: TranslationConfig) -> Splits:
    """The text of a config, split: as the corpus does it, or a hash of the source sentence for the user's own files."""
    if config.corpus == "files":
        if config.source_file is None:
            raise ConfigError("corpus='files' needs files", got="none", cure="pass --source and --target")
        cure = "name them again by --source, and by --target where there are two"
        source = followed(config.source_file, cure=cure)
        target = None if config.target_file is None else followed(config.target_file, cure=cure)
        pairs = read_parallel(source, target, on_bad=config.on_bad)
        held_out = min(2000, max(1, pairs.size // 20))
        return {str(name): text for name, text in split_by_source(pairs, valid=held_out, test=held_out).items()}
    dataset = choose(DATASETS, "parallel text", config.corpus, setting="task.corpus", besides=("files",))
    splits: Splits = dataset.read(source=config.source, target=config.target)
    return splits


def _subwords(lines: Sequence[str], units: Literal["bpe", "unigram"], size: int) -> SubwordCodec:
    try:
        return SubwordCodec.train(lines, size=size, kind=units, max_lines=400_000)
    except ConfigError as error:
        nearer = (error.cure or "").removeprefix("choose size=")
        cure = f"task.vocabulary={nearer}, or task.units=words task.joint=false" if nearer.isdigit() else error.cure
        raise ConfigError(error.what, got=error.got, expected=error.expected, cure=cure) from error


def _cased(lines: Sequence[str], lower: bool) -> Sequence[str]:
    return [line.lower() for line in lines] if lower else lines


def _codec(path: Path) -> Codec:
    cure = "restore it, or train anew"
    inside(path)
    try:
        return codec_from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise RegardError(f"{path} cannot be read", got=got, expected="the units of the run", cure=cure) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RegardError(f"{path} cannot be read", got=str(error), cure=cure) from error


def _check(config: TranslationConfig) -> None:
    check_search(config.search)
    if config.corpus != "files":
        choose(DATASETS, "parallel text", config.corpus, setting="task.corpus", besides=("files",))
    if config.units == "words" and config.joint:
        raise ConfigError(
            "task.joint is for sub-words", got="units='words'", cure="task.joint=false, or task.units=bpe"
        )

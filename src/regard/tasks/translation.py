"""Translation: parallel text in, BLEU out. Everything between the files of a corpus and a batch is here."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.base import check_installed, to_json
from regard.base.ranges import UserFiles
from regard.data import (
    PAD,
    Codec,
    Pair,
    ParallelText,
    ShardBatches,
    TokenBatch,
    TokenBatches,
    evaluation_batches,
    tokenize,
)
from regard.datasets import DATASETS
from regard.explanation import Matrix
from regard.metrics import bleu, bleu_by_length, chrf, tokenized_bleu
from regard.nn import device_of, evaluating, token_loss, two_pass_loss
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.inputs import checked_split, checked_texts
from regard.tasks.large_text import LargeText, large_text, read_splits
from regard.tasks.parallel_text import (
    FILES,
    Splits,
    TranslationConfig,
    cased,
    check_corpus,
    learn_subwords,
    learn_words,
    load_units,
    save_units,
    test_set,
    token_ids,
)
from regard.tasks.samples import evenly_by_size
from regard.tasks.search import Prediction, Search, changed_search, read_source, translate_texts
from regard.tasks.source_layers import MOST_PAIRS, HeadChoice, best_head, self_layers, source_layers
from regard.tasks.task import Evaluation, Example, Loss, Progress, StoredTask, TaskEntry


def length_points(details: Mapping[str, Any]) -> list[Point]:
    """BLEU by the length of the source sentence: one point for each bucket of lengths."""
    return [
        Point(f"{each['low']}–{each['high']}" if each["high"] else f"{each['low']}+", each["bleu"], each["count"])
        for each in details["lengths"]
    ]


class Translation(StoredTask):
    """The task: `batches`, `loss` and `evaluate` for the trainer, `predict` for everybody else."""

    display = Display(
        figures=(
            Figure("bleu", "BLEU", better="higher"),
            Figure("tokenized_bleu", "BLEU, tokenised, lower-cased", better="higher"),
            Figure("chrf", "chrF", better="higher"),
            Figure("loss", "loss (nats a token)", 3, better="lower"),
            Figure("sentences_per_second", "sentences a second", 1, better="higher"),
        ),
        counts="tokenized_bleu",
        unit="tokens",
        things="sentences",
        examples="Translations",
        overview=(Column("ours, beam", ("tokenized_bleu",)), Column("ours, greedy", ("greedy_tokenized_bleu",))),
        table=(Column("BLEU, beam", ("tokenized_bleu",)), Column("BLEU, greedy", ("greedy_tokenized_bleu",))),
        more=(Column("sacreBLEU", ("bleu",)),),
        report=(
            Column("BLEU, tokenised", ("tokenized_bleu",)), Column("BLEU", ("bleu",)), Column("chrF", ("chrf",)),
        ),
        signatures={"tokenized_bleu": "BLEU", "bleu": "sacreBLEU"},
        note="BLEU is on our tokens, lower-cased.",
        list_note="BLEU of tokens, lower-cased, on the first test set; see docs/reproduction.md.",
        charts=(
            EvaluationChart("lengths", "BLEU by source length", "words of the source", "BLEU, tokenised",
                  length_points, "sentences"),
        ),
        speed="sentences_per_second",
        after_training=False,
    )  # fmt: skip
    settings_type = Search
    unused_settings = ("places",)
    several_files = True
    _run: Path | None = None  # the folder of the run that it was loaded from

    def __init__(
        self, config: TranslationConfig, *, codecs: tuple[Codec, Codec] | None = None, splits: Splits | None = None
    ) -> None:
        check_corpus(config.corpus)
        self.config, self._own = config, splits is not None
        if splits is not None:
            self.splits = splits
        if codecs is not None:
            self.codecs = codecs

    @cached_property
    def large(self) -> LargeText | None:
        """The corpus, where it is read from shards on disk."""
        return None if self._own else large_text(self.config, self._run)

    @cached_property
    def splits(self) -> Splits:
        """Train, valid and test sets by name, read when they are first asked for; of shards "train" is a sample."""
        return read_splits(self.config) if self.large is None else self.large.splits

    @cached_property
    def codecs(self) -> tuple[Codec, Codec]:
        """Source and target units, learnt from the training text unless they were given."""
        text, config = self.splits["train"], self.config
        if config.units == "words":
            return learn_words(
                text, vocabulary=config.vocabulary, min_count=config.min_count, lower=config.lower
            )  # fmt: skip
        return learn_subwords(
            text, units=config.units, vocabulary=config.vocabulary, joint=config.joint, lower=config.lower
        )  # fmt: skip

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of source and target vocabulary: what a model's config needs."""
        return len(self.codecs[0]), len(self.codecs[1])

    @property
    def tests(self) -> list[str]:
        """The test sets of the text, the usual one first: "test", or "test2016" and others."""
        return [name for name in self.splits if name.startswith("test")]

    def complete(self, model_config: Any) -> Any:
        """The model's settings with the sizes of the vocabularies."""
        source, target = self.vocabularies
        return replace(model_config, source_vocabulary=source, target_vocabulary=target)

    def save(self, folder: Path) -> None:
        """Writes the units of both languages, and which files a corpus in shards is made of."""
        save_units(folder, self.codecs)
        if self.large is not None:
            self.large.save(folder)

    @classmethod
    def load(cls, folder: Path, config: TranslationConfig) -> "Translation":
        """The task of a run folder, with its own units; its text is read only when asked for."""
        task = cls(config, codecs=load_units(folder, shared=config.joint and config.units != "words"))
        task._run = folder
        return task

    def forget_data(self) -> None:
        """Forgets the files of the run that it was loaded from; its units stay."""
        self._run = None

    @classmethod
    def from_files(cls, config: TranslationConfig, source: UserFiles, target: UserFiles | None) -> TranslationConfig:
        """The settings for the user's own text: files of two sides line by line, or of one with a tab in each line."""
        return replace(config, corpus=FILES, source_file=source, target_file=target)

    def prepare(self, device: str | torch.device, progress: Progress | None = None) -> None:
        """Writes the shards of a large corpus, unless they are there."""
        if self.large is not None:
            self.large.progress = progress
            self.large.shards(self.codecs)

    def batches(self, *, seed: int, rank: int = 0, world: int = 1) -> TokenBatches | ShardBatches:
        """Training batches without end, for one of `world` ranks."""
        config = self.config
        if self.large is not None:
            return self.large.batches(self.codecs, seed=seed, rank=rank, world=world)
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
        twice = (
            torch.cat([tensor, tensor]) for tensor in (batch.source, batch.source_lengths, batch.inputs, batch.targets)
        )
        source, lengths, inputs, targets = twice
        logits = model(source, lengths, inputs).logits
        both = token_loss(logits, targets, smoothing=smoothing, ignore=PAD)
        total, apart = two_pass_loss(both, logits, batch.targets != PAD, consistency=weight)
        return Loss(total, {"divergence": apart})

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
        """Loss and greedy BLEU (tokenised, lower-cased) of a split; with `full` the beam, and every score there is."""
        if full:
            check_installed("sacrebleu", what="an evaluation in BLEU and chrF")
        text = self.text(split)
        if progress is not None:
            progress("sentences", 0, text.size)
        with evaluating(model):
            figures = {"loss": self._mean_loss(model, split, device_of(model))}
            how = settings or (self.config.search if full else Search(1))
            start = time.perf_counter()
            best = [predictions[0] for predictions in self.predict(model, text.source, how, progress=progress)]
            seconds = time.perf_counter() - start
        outputs = [prediction.text for prediction in best]
        references = self.references(split)
        tokens = [tokenize(output, lower=True) for output in outputs]
        wanted = [[tokenize(reference, lower=True) for reference in texts] for texts in references]
        measured = tokenized_bleu(tokens, wanted, lower=True)
        figures["tokenized_bleu"] = measured.score
        details: dict[str, Any] = {}
        if full:
            lower = self.config.lower
            first, character = bleu(outputs, references, lower=lower), chrf(outputs, references, lower=lower)
            figures |= {"bleu": first.score, "chrf": character.score, "sentences_per_second": len(best) / seconds}
            lengths = [len(tokenize(line)) for line in text.source]
            buckets = bleu_by_length(tokens, wanted, lengths, edges=self.config.edges, metric=tokenized_bleu)
            details = {
                "split": split,
                "count": len(best),
                "seconds": seconds,
                "settings": to_json(how),
                "how": f"beam {how.beams}",
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
        return Evaluation(figures, best="tokenized_bleu", details=details)

    # ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def default_settings(self) -> Search:
        """The search of the run."""
        search: Search = self.config.search
        return search

    def settings(self, **changes: Any) -> Search:
        """The search of the run with changes, such as beam=8 or length_penalty=0.6."""
        return changed_search(self.config.search, changes, unused=self.unused_settings)

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one text; anything else that can be walked through holds several."""
        return isinstance(inputs, str)

    def predict(
        self,
        model: nn.Module,
        inputs: Iterable[str],
        settings: Search | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[list[Prediction]]:
        """The best translations of each text, best first, with weights [t k]."""
        texts = checked_texts(inputs)
        lines, search = cased(texts, self._lowers), settings or self.config.search
        by_text = translate_texts(model, lines, self.codecs, search, progress=progress)
        return [
            [replace(one, source=text) for one in translations]
            for text, translations in zip(texts, by_text, strict=True)
        ]

    def read(self, model: Any, text: str) -> list[str]:
        """Lets the encoder read a text, and gives its tokens, with <eos>."""
        return read_source(model, cased([text], self._lowers)[0], self.codecs[0])

    def layers(self, model: Any, prediction: Prediction) -> list[Matrix]:
        """All weights over the source behind a translation, one matrix [t k] or [h t k] for each layer."""
        if not prediction.tokens:
            return []
        return source_layers(model, self._pair(prediction), prediction.tokens, prediction.source_tokens)

    def self_layers(self, model: Any, prediction: Prediction, side: str = "source") -> list[Matrix]:
        """What the words of the source, or of the translation, take from each other, one matrix for each layer."""
        words = prediction.source_tokens if side == "source" else prediction.tokens
        return self_layers(model, self._pair(prediction), words, side) if prediction.tokens else []

    def best_head(self, model: Any, split: str = "valid") -> HeadChoice | None:
        """The layer and the head that are best aligned on a split; None where there is nothing to choose."""
        return best_head(model, list(islice(self._encoded(split), MOST_PAIRS)))

    def _pair(self, prediction: Prediction) -> Pair:
        source, target = self.codecs
        return token_ids(source, prediction.source_tokens[:-1]), token_ids(target, prediction.tokens)

    def choose(self, split: str, count: int) -> list[int]:
        """Sentences of all lengths, evenly from the shortest to the longest."""
        return evenly_by_size([len(line.split()) for line in self.text(split).source], count)

    def examples(self, model: nn.Module, split: str, numbers: Sequence[int]) -> list[Example]:
        """These sentences, up to three of their references, and their translations."""
        lines, references = self.text(split).source, self.references(split)
        by_text = self.predict(model, [lines[number] for number in numbers])
        return [
            Example(best[0].source, "\n".join(references[number][:3]), best[0].text, best[0])
            for number, best in zip(numbers, by_text, strict=True)
        ]

    def references(self, split: str) -> list[list[str]]:
        """Every reference of every sentence of a split."""
        own = None if self._own or split not in ("valid", "test") else DATASETS.get(self.config.corpus)
        dataset = test_set(split) or own
        if dataset is not None and dataset.references is not None:
            return dataset.references(split)
        return [[line] for line in self.text(split).target]

    def _mean_loss(self, model: nn.Module, split: str, device: torch.device) -> float:
        """Nats a token, without smoothing."""
        total, count = torch.zeros((), dtype=torch.float64, device=device), 0
        for batch in self._held_out(split):
            out = model(*(tensor.to(device) for tensor in (batch.source, batch.source_lengths, batch.inputs)))
            total += token_loss(out.logits, batch.targets.to(device), ignore=PAD)
            count += batch.num_tokens
        return total.item() / max(count, 1)

    def _held_out(self, split: str) -> list[TokenBatch]:
        return evaluation_batches(self._encoded(split), max_tokens=4096)

    @property
    def _lowers(self) -> bool:
        return bool(self.config.lower) and self.config.units != "words"  # words are lower-cased by their codec

    def text(self, split: str) -> ParallelText:
        """The pairs of a split, or of a test set such as "newstest2014", in the languages that it has."""
        if other := test_set(split):
            return other.read(split=split, source=self.config.source, target=self.config.target)  # type: ignore
        return self.splits[checked_split(split, [*self.splits, "newstest2014"])]

    def _encoded(self, split: str) -> Iterator[Pair]:
        text, (source, target) = self.text(split), self.codecs
        lower, limit = self._lowers, self.config.max_words if split == "train" else None
        for first, second in zip(cased(text.source, lower), cased(text.target, lower), strict=True):
            if limit is None or max(len(first.split()), len(second.split())) <= limit:
                yield source.encode_text(first), target.encode_text(second)


TASK = TaskEntry(
    "translation",
    Translation,
    TranslationConfig,
    verb="translate",
    inputs="text",
    example='"a sentence"',
    inherits=True,
)

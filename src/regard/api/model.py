"""A trained model and what it does: translate, classify, caption, evaluate."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import trace
from regard.base import ConfigError, RegardError, ShapeError, did_you_mean, to_json
from regard.data import Codec, SubwordCodec, WordCodec, collate
from regard.data.images import read_image
from regard.models import MODELS, Translator
from regard.recipes import Recipe
from regard.recipes.figures import SHOWN
from regard.tasks import Caption, Gazing, Prediction, Progress, Recognised, Score, Search
from regard.tasks.search import check_search

Several = list[Any] | tuple[Any, ...]  # of pictures; a string is a sequence too
Picture = str | os.PathLike[str] | bytes | NDArray[Any] | Tensor  # a file, its bytes, or pixels [h w] or [h w 3]
_OF_TEXT = ("max_ratio", "temperature", "top_k", "top_p", "seed", "coverage_penalty", "replace_unknown")
_OF_PICTURES = ("places",)


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and all that it needs: what `load` gives."""

    name: str
    recipe: Recipe
    task: Any  # of TASKS
    module: nn.Module
    folder: Path

    @property
    def kind(self) -> str:
        """The name of its task: "translation", "classification" or "captioning"."""
        return MODELS[self.recipe.paper].task

    @property
    def num_parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def translate(self, text: str, *, beam: int | None = None, nbest: int = 1, **search: Any) -> Prediction: ...

    @overload
    def translate(
        self, text: Sequence[str], *, beam: int | None = None, nbest: int = 1, **search: Any
    ) -> list[Prediction]: ...

    def translate(
        self, text: str | Sequence[str], *, beam: int | None = None, nbest: int = 1, **search: Any
    ) -> Prediction | list[Prediction]:
        """The translation of a text, or of each of several: `.text`, `.tokens`, and `.weights` [tokens, source tokens].

        `search` takes every setting of `Search`, such as length_penalty=1.0 or temperature=0.8.
        """
        several = self.nbest([text] if isinstance(text, str) else text, beam=beam, nbest=nbest, **search)
        best = [found[0] for found in several]
        return best[0] if isinstance(text, str) else best

    def nbest(
        self, texts: Sequence[str], *, beam: int | None = None, nbest: int = 5, **search: Any
    ) -> list[list[Prediction]]:
        """The best few translations of each text, best first."""
        self.must_be("translation", "texts")
        if isinstance(texts, str):
            raise ConfigError("nbest takes several texts", got="one string", cure="nbest([text])[0]")
        if not isinstance(texts, Iterable):
            raise ConfigError("texts", got=type(texts).__name__, expected="a string, or a list of strings")
        texts = list(texts)  # columns of tables are no sequences, but as good
        for number, text in enumerate(texts, 1):
            _check_text(text, number)
        found: list[list[Prediction]] = self.task.predict(self.module, texts, how=self._search(beam, nbest, search))
        return found

    @torch.no_grad()
    def heads(self, prediction: Prediction) -> dict[str, NDArray[Any]]:
        """All weights over the source behind a translation, by layer: [t k], or [h t k] where there are heads.

        The translation is fed to the model again, so that every layer sees it whole.
        """
        self.must_be("translation", "a translation")
        if not prediction.tokens:
            return {}
        source, target = self.task.codecs
        pair = _ids(source, prediction.source_tokens[:-1]), _ids(target, prediction.tokens)  # <eos> is added again
        batch = collate([pair]).to(next(self.module.parameters()).device)
        with trace(self.module, layers=cast(Translator, self.module).source_layers) as seen:
            self.module(batch.source, batch.source_lengths, batch.inputs)
        return {name: record.weights[0][..., : len(prediction.tokens), :] for name, record in seen.items()}

    # ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def classify(self, image: Picture) -> Recognised: ...

    @overload
    def classify(self, image: Several) -> list[Recognised]: ...

    def classify(self, image: Picture | Several) -> Recognised | list[Recognised]:
        """What a picture shows, or each of several: `.text`, `.probabilities`, and `.where` a model looked.

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. It is fitted to what the model
        knows, see `prepared`.
        """
        self.must_be("classification", "pictures")
        pictures = list(image) if isinstance(image, list | tuple) else [image]
        if not pictures:
            return []
        found: list[Recognised] = self.task.predict(self.module, torch.stack([self.prepared(p) for p in pictures]))
        return found if isinstance(image, list | tuple) else found[0]

    def prepared(self, image: Picture) -> Tensor:
        """A picture as a classifier is shown it [c h w]: the right size and channels; digits white on black."""
        self.must_be("classification", "pictures")
        shown: Tensor = self.task.prepared(torch.from_numpy(_pixels(image)))
        return shown

    @overload
    def caption(self, image: Picture, *, beam: int | None = None, nbest: int = 1, **search: Any) -> Caption: ...

    @overload
    def caption(self, image: Several, *, beam: int | None = None, nbest: int = 1, **search: Any) -> list[Caption]: ...

    def caption(
        self, image: Picture | Several, *, beam: int | None = None, nbest: int = 1, **search: Any
    ) -> Caption | list[Caption]:
        """What can be said of a picture, or of each of several: `.text`, `.tokens`, and `.weights` [tokens, places].

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3].
        """
        pictures = list(image) if isinstance(image, list | tuple) else [image]
        best = [found[0] for found in self.captions(pictures, beam=beam, nbest=nbest, **search)]
        return best if isinstance(image, list | tuple) else best[0]

    def captions(
        self, images: Several | Picture, *, beam: int | None = None, nbest: int = 5, **search: Any
    ) -> list[list[Caption]]:
        """The best few captions of each picture, best first."""
        self.must_be("captioning", "pictures")
        if not isinstance(images, list | tuple):
            raise ConfigError("captions takes several pictures", got="one", cure="captions([picture])[0]")
        how = self._search(beam, nbest, search)
        names = [os.fspath(image) if isinstance(image, str | os.PathLike) else None for image in images]
        found: list[list[Caption]] = self.task.predict(self.module, [_pixels(image) for image in images], how=how)
        return [
            [one if name is None else replace(one, name=name) for one in several]
            for name, several in zip(names, found, strict=True)
        ]

    # ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(
        self, split: str = "test", *, beam: int | None = None, progress: Progress | None = None, **settings: Any
    ) -> Score:
        """Every figure of the task on a split, with signatures and outputs: BLEU and others, or errors.

        Settings are those of a search (`length_penalty=0.6`), or of `Gazing` (`draws=8`) for pictures that are named.
        `progress` is called with what is counted, how many are done, and of how many: ("sentences", 64, 1968).
        """
        if progress is not None and hasattr(self.task, "viewer"):
            self.task.viewer.progress = progress  # of features that are not there yet
        if not hasattr(self.task.config, "search"):
            if beam is not None:
                raise ConfigError(f"a {self.kind} run does not search", got="beam")
            for name in settings:
                if name not in Gazing.__dataclass_fields__:
                    cure = did_you_mean(name, Gazing.__dataclass_fields__)
                    raise ConfigError(f"unknown setting {name!r} of an evaluation", cure=cure)
            score: Score = self.task.evaluate(
                self.module, split, gazing=Gazing(**settings), full=True, progress=progress
            )
            return score
        how = self._search(beam, 1, settings)
        score = self.task.evaluate(self.module, split, search=how, full=True, progress=progress)
        return replace(score, details={**score.details, "search": to_json(how)})

    def must_be(self, kind: str, given: str) -> None:
        """An error that says what to use instead, unless the run is of this kind."""
        if self.kind != kind:
            cure = f"use {SHOWN[self.kind].use}, or load a {kind} run"
            raise RegardError(f"{self.name} is a {self.kind} run", got=given, cure=cure)

    def _search(self, beam: int | None, nbest: int, settings: dict[str, Any]) -> Search:
        known = ["beam", *(name for name in Search.__dataclass_fields__ if name != "beams")]
        others = _OF_PICTURES if self.kind == "translation" else _OF_TEXT
        known = [name for name in known if name not in others]
        for name in settings:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r} of the search", cure=did_you_mean(name, known))
        base: Search = self.task.config.search
        how = replace(base, nbest=nbest, **settings)
        how = replace(how, beams=max(base.beams, how.nbest) if beam is None else beam)
        check_search(how)
        return how


def _pixels(image: Picture) -> NDArray[np.uint8]:
    """Red, green and blue [h w 3], of a file or of pixels."""
    if isinstance(image, str | os.PathLike | bytes):
        return read_image(image)
    pixels = np.asarray(image.detach().cpu() if isinstance(image, Tensor) else image)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        got, cure = f"{pixels.dtype} {list(pixels.shape)}", "(255 * image).astype('uint8') if it is 0 to 1"
        raise ShapeError("a picture is made of bytes", got=got, expected="uint8 [h w] or [h w 3]", cure=cure)
    return np.ascontiguousarray(pixels)


def _check_text(text: str, number: int) -> None:
    """Python lets bytes that are no UTF-8 into a string, as lone surrogates; models cannot read them."""
    if not isinstance(text, str):
        raise ConfigError(f"text {number}", got=f"{type(text).__name__}, {text!r:.60}", expected="a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        got = f"{error.object[error.start]!r} at position {error.start}"
        raise RegardError(f"text {number} is no Unicode", got=got, cure="give it in UTF-8") from error


def _ids(codec: Codec, tokens: list[str]) -> list[int]:
    """The numbers of tokens; of one that is unknown, that of <unk>."""
    if isinstance(codec, WordCodec):
        return codec.vocabulary.encode(tokens)
    assert isinstance(codec, SubwordCodec)
    return [codec._processor.piece_to_id(token) for token in tokens]

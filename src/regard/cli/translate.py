"""`regard translate`: sentences from the command line, a file, standard input or the keyboard."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard import api
from regard.base import ConfigError, RegardError, check_installed
from regard.cli.searching import search_settings
from regard.tasks import Prediction
from regard.viz.heatmap import FORMATS

CHUNK = 256  # lines that are translated together


def translate(asked: Namespace) -> None:
    """Print a translation for each sentence; with --nbest the score before it."""
    _check(asked)
    model = api.load(asked.run, device=asked.device)
    model.must_be("translation", "texts")
    options = {**search_settings(model, asked.settings), "beam": asked.beam, "nbest": asked.nbest}
    first: Prediction | None = None
    for chunk in _chunks(_lines(asked)):
        for found in model.nbest(chunk, **options):
            first = first or found[0]
            for one in found:
                print(f"{one.score:8.3f}\t{one.text}" if asked.nbest > 1 else one.text, flush=True)
    if asked.heatmap is not None:
        if first is None or not first.tokens:
            raise RegardError("there is nothing to draw", got="no words in the first sentence, or in its translation")
        print(_draw(model, first, Path(asked.heatmap), asked.heads), file=sys.stderr)


def _check(asked: Namespace) -> None:
    """What need not wait for the model."""
    if asked.text and asked.file:
        raise ConfigError("text and --file exclude each other", cure="give one of them")
    if asked.heads and asked.heatmap is None:
        raise ConfigError("--heads needs --heatmap", cure="--heatmap heads.png")
    if asked.heatmap is not None:
        check_installed("matplotlib", what="--heatmap")
    if asked.heatmap is not None and Path(asked.heatmap).suffix.lower() not in FORMATS:
        got = repr(Path(asked.heatmap).suffix)
        raise ConfigError("unknown picture format", got=got, expected=f"one of {', '.join(FORMATS)}")


def _lines(asked: Namespace) -> Iterable[str]:
    if asked.text:
        return list(asked.text)
    if asked.file:
        from regard.data import read_lines

        return read_lines(asked.file)
    return _typed() if sys.stdin.isatty() else _piped()


def _piped() -> Iterator[str]:
    from regard.data.parallel import MAX_LINE, conversion

    try:
        while line := sys.stdin.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                got, cure = f"more than {MAX_LINE:,} characters", "one sentence a line"
                raise RegardError("a line of standard input does not end", got=got, cure=cure)
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        got, cure = f"byte 0x{error.object[error.start]:02x}", conversion(error.object)
        raise RegardError("standard input cannot be read", got=got, expected=error.encoding, cure=cure) from error


def _typed() -> Iterator[str]:
    print("One sentence a line; an empty line or Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            line = input("> ")
        except EOFError:
            return
        if not line.strip():
            return
        yield line


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 1 if sys.stdin.isatty() and not isinstance(lines, list) else CHUNK
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _draw(model: api.Model, found: Prediction, path: Path, heads: bool) -> Path:
    from regard.viz import heatmap, heatmaps, save

    if found.weights is None:
        raise RegardError(f"{model.recipe.paper} has no attention", cure="draw a model that has")
    if not heads:
        return save(heatmap(found.weights, found.tokens, found.source_tokens), path)
    layers = {name: weights for name, weights in model.heads(found).items() if weights.shape[-2] == len(found.tokens)}
    return save(heatmaps(layers, found.tokens, found.source_tokens), path)

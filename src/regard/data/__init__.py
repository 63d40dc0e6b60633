"""From files to batches: sentence pairs, pictures and captions, each with a position that can be saved."""

from collections.abc import Callable
from typing import Any

from regard.data.batches import Batches
from regard.data.canvas import Canvas, paint
from regard.data.captions import CaptionBatches
from regard.data.digits import mnist
from regard.data.download import DownloadError, cache_folder, find
from regard.data.europarl import europarl as _europarl
from regard.data.flickr8k import Captions, caption_tokens, read_captions, split_captions
from regard.data.images import Box, fit_box, fit_image, read_image
from regard.data.multi30k import multi30k as _multi30k
from regard.data.newstest import newstest as _newstest
from regard.data.parallel import DataError, ParallelText, read_lines, read_parallel, split_by_source
from regard.data.pictures import Pictures
from regard.data.sources import SOURCES, Source
from regard.data.tatoeba import tatoeba as _tatoeba
from regard.data.tatoeba import tatoeba_plain, tatoeba_plain_references
from regard.data.text import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    Codec,
    SubwordCodec,
    Vocabulary,
    WordCodec,
    codec_from_json,
    detokenize,
    normalize,
    tokenize,
)
from regard.data.tokens import Pair, TokenBatch, TokenBatches, collate, evaluation_batches

CORPORA: dict[str, Callable[..., Any]] = {
    "tatoeba_plain": tatoeba_plain,
    "tatoeba": _tatoeba,
    "multi30k": _multi30k,
    "europarl": _europarl,
    "newstest": _newstest,
}

__all__ = [
    "BOS",
    "CORPORA",
    "EOS",
    "PAD",
    "SOURCES",
    "SPECIALS",
    "UNK",
    "Batches",
    "Box",
    "Canvas",
    "CaptionBatches",
    "Captions",
    "Codec",
    "DataError",
    "DownloadError",
    "Pair",
    "ParallelText",
    "Pictures",
    "Source",
    "SubwordCodec",
    "TokenBatch",
    "TokenBatches",
    "Vocabulary",
    "WordCodec",
    "cache_folder",
    "caption_tokens",
    "codec_from_json",
    "collate",
    "detokenize",
    "evaluation_batches",
    "find",
    "fit_box",
    "fit_image",
    "mnist",
    "normalize",
    "paint",
    "read_captions",
    "read_image",
    "read_lines",
    "read_parallel",
    "split_by_source",
    "split_captions",
    "tatoeba_plain",
    "tatoeba_plain_references",
    "tokenize",
]

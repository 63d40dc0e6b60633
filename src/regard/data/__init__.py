"""From files to batches: sentence pairs, pictures, captions and stories, each with a position that can be saved."""

from regard.data.batches import Batches
from regard.data.canvas import Canvas, paint
from regard.data.captions import CaptionBatches, Captions, caption_tokens, read_captions, split_captions
from regard.data.download import DownloadError, cache_folder, find
from regard.data.images import Box, fit_box, fit_image, read_image
from regard.data.parallel import DataError, ParallelText, read_lines, read_parallel, split_by_source
from regard.data.pictures import Pictures, RowBatches
from regard.data.sources import Source, listed_sources
from regard.data.stories import Question, Stories, StoryBatches, encode_stories, read_stories, typed_story
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
    normalize_text,
    tokenize,
)
from regard.data.tokens import Pair, TokenBatch, TokenBatches, collate, evaluation_batches

__all__ = [
    "BOS",
    "EOS",
    "PAD",
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
    "Question",
    "RowBatches",
    "Source",
    "Stories",
    "StoryBatches",
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
    "encode_stories",
    "evaluation_batches",
    "find",
    "fit_box",
    "fit_image",
    "listed_sources",
    "normalize_text",
    "paint",
    "read_captions",
    "read_image",
    "read_lines",
    "read_parallel",
    "read_stories",
    "split_by_source",
    "split_captions",
    "tokenize",
    "typed_story",
]

"""Text for translation: files to sentence pairs, sentences to ids, ids to batches."""

from regard.data.batch import Batch, Pair, TokenBatches, collate, evaluation_batches
from regard.data.parallel import DataError, ParallelText, read_lines, read_parallel, split_by_source
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

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "Batch",
    "Codec",
    "DataError",
    "Pair",
    "ParallelText",
    "SubwordCodec",
    "TokenBatches",
    "Vocabulary",
    "WordCodec",
    "codec_from_json",
    "collate",
    "detokenize",
    "evaluation_batches",
    "normalize",
    "read_lines",
    "read_parallel",
    "split_by_source",
    "tokenize",
]

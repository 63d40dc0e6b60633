"""From files to batches: sentence pairs, pictures, captions and stories, each with a position that can be saved."""

from regard.data.algorithms import PROBLEMS, Sequences, optimal_bits
from regard.data.batches import Batches
from regard.data.canvas import Canvas, paint
from regard.data.captions import CaptionBatches, Captions, caption_tokens, read_captions, split_captions
from regard.data.clips import Clips, Views, cut_clips, draw_rows, even_views, join_clips, mask_boxes, random_views
from regard.data.download import DownloadError, cache_folder, find
from regard.data.english import EnglishWords
from regard.data.file_lists import files_of, paired_files
from regard.data.glyphs import CHARACTERS, LETTERS, Glyphs, draw_glyphs, pack_glyphs, unpack_glyphs
from regard.data.graphs import Graph, GraphBatches, GraphRows, GraphSplit, read_graph, row_normalised, undirected
from regard.data.images import Box, fit_box, fit_image, read_image
from regard.data.labelled import LabelledTexts, hold_out, read_labelled, split_labelled
from regard.data.lettering import Lettering, draw_words, write_words
from regard.data.parallel import DataError, ParallelText, read_lines, read_parallel, split_by_source
from regard.data.picture_folder import read_picture_folder
from regard.data.pictures import Pictures, RowBatches
from regard.data.scenes import ActedClips, Scenes, act_scenes, drawn_scenes
from regard.data.shard_batches import ShardBatches
from regard.data.shards import Shards, ShardWriter
from regard.data.signs import DrawnSigns, Signs, draw_signs
from regard.data.sources import Source, listed_sources
from regard.data.stories import Question, Stories, StoryBatches, encode_stories, read_stories, typed_story
from regard.data.streams import StreamBatch, StreamBatches, WindowBatches, stream_windows
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
)
from regard.data.text_batches import TextBatch, TextBatches, evaluation_text_batches, text_batch
from regard.data.tokenizing import detokenize, english_tokens, normalize_text, tokenize
from regard.data.tokens import Pair, TokenBatch, TokenBatches, collate, evaluation_batches
from regard.data.units import TextUnits, UnitKind, cut_text, read_text
from regard.data.weather import Weather, jostle, paint_words, wear
from regard.data.windows import cut_windows, linear_weights
from regard.data.word_vectors import Coverage, WordVectors, read_word_vectors, vectors_of_pieces, vectors_of_words
from regard.data.words import WordPictures, normalised, read_words, read_zipped_splits, read_zipped_words, split_words

__all__ = [
    "BOS",
    "CHARACTERS",
    "EOS",
    "LETTERS",
    "PAD",
    "PROBLEMS",
    "SPECIALS",
    "UNK",
    "ActedClips",
    "Batches",
    "Box",
    "Canvas",
    "CaptionBatches",
    "Captions",
    "Clips",
    "Codec",
    "Coverage",
    "DataError",
    "DownloadError",
    "DrawnSigns",
    "EnglishWords",
    "Glyphs",
    "Graph",
    "GraphBatches",
    "GraphRows",
    "GraphSplit",
    "LabelledTexts",
    "Lettering",
    "Pair",
    "ParallelText",
    "Pictures",
    "Question",
    "RowBatches",
    "Scenes",
    "Sequences",
    "ShardBatches",
    "ShardWriter",
    "Shards",
    "Signs",
    "Source",
    "Stories",
    "StoryBatches",
    "StreamBatch",
    "StreamBatches",
    "SubwordCodec",
    "TextBatch",
    "TextBatches",
    "TextUnits",
    "TokenBatch",
    "TokenBatches",
    "UnitKind",
    "Views",
    "Vocabulary",
    "Weather",
    "WindowBatches",
    "WordCodec",
    "WordPictures",
    "WordVectors",
    "act_scenes",
    "cache_folder",
    "caption_tokens",
    "codec_from_json",
    "collate",
    "cut_clips",
    "cut_text",
    "cut_windows",
    "detokenize",
    "draw_glyphs",
    "draw_rows",
    "draw_signs",
    "draw_words",
    "drawn_scenes",
    "encode_stories",
    "english_tokens",
    "evaluation_batches",
    "evaluation_text_batches",
    "even_views",
    "files_of",
    "find",
    "fit_box",
    "fit_image",
    "hold_out",
    "join_clips",
    "jostle",
    "linear_weights",
    "listed_sources",
    "mask_boxes",
    "normalised",
    "normalize_text",
    "optimal_bits",
    "pack_glyphs",
    "paint",
    "paint_words",
    "paired_files",
    "random_views",
    "read_captions",
    "read_graph",
    "read_image",
    "read_labelled",
    "read_lines",
    "read_parallel",
    "read_picture_folder",
    "read_stories",
    "read_text",
    "read_word_vectors",
    "read_words",
    "read_zipped_splits",
    "read_zipped_words",
    "row_normalised",
    "split_by_source",
    "split_captions",
    "split_labelled",
    "split_words",
    "stream_windows",
    "text_batch",
    "tokenize",
    "typed_story",
    "undirected",
    "unpack_glyphs",
    "vectors_of_pieces",
    "vectors_of_words",
    "wear",
    "write_words",
]

"""Measures: strings and tokens in, numbers and signatures out; weights in, spread and alignment error out. No torch."""

from regard.metrics.attention import (
    alignment_error_rate,
    entropy,
    hard_links,
    mean_distance,
    support_size,
    weight_by_distance,
)
from regard.metrics.captions import CaptionBleu, Judged, caption_bleu, cider, meteor, score_captions
from regard.metrics.language import PerplexityGroup, bits_per_character, perplexity, perplexity_by_position
from regard.metrics.reading import character_errors, edit_distance, word_accuracy
from regard.metrics.translation import (
    Bleu,
    Bucket,
    Chrf,
    bleu,
    bleu_by_length,
    chrf,
    clipped_precision,
    tokenized_bleu,
)

__all__ = [
    "Bleu",
    "Bucket",
    "CaptionBleu",
    "Chrf",
    "Judged",
    "PerplexityGroup",
    "alignment_error_rate",
    "bits_per_character",
    "bleu",
    "bleu_by_length",
    "caption_bleu",
    "character_errors",
    "chrf",
    "cider",
    "clipped_precision",
    "edit_distance",
    "entropy",
    "hard_links",
    "mean_distance",
    "meteor",
    "perplexity",
    "perplexity_by_position",
    "score_captions",
    "support_size",
    "tokenized_bleu",
    "weight_by_distance",
    "word_accuracy",
]

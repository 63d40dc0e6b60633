"""One paper, one file: a frozen config, a class, presets. MODELS says where each comes from."""

from regard.models.bahdanau import Bahdanau, BahdanauConfig, bahdanau_base
from regard.models.convs2s import ConvS2S, ConvS2SConfig, convs2s_base, convs2s_iwslt
from regard.models.encoder_decoder import (
    Cho,
    ChoConfig,
    Sutskever,
    SutskeverConfig,
    cho_base,
    sutskever_base,
)
from regard.models.gnmt import GNMT, GNMTConfig, gnmt_base
from regard.models.luong import Luong, LuongConfig, luong_global, luong_local_p
from regard.models.transformer import Transformer, TransformerConfig, transformer_base, transformer_big
from regard.models.translator import Memory, Paper, Translated, Translator

MODELS: dict[str, Paper] = {
    "cho": Paper(
        Cho, ChoConfig, 2014,
        "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation",
        "https://arxiv.org/abs/1406.1078",
    ),
    "sutskever": Paper(
        Sutskever, SutskeverConfig, 2014,
        "Sequence to Sequence Learning with Neural Networks",
        "https://arxiv.org/abs/1409.3215",
    ),
    "bahdanau": Paper(
        Bahdanau, BahdanauConfig, 2015,
        "Neural Machine Translation by Jointly Learning to Align and Translate",
        "https://arxiv.org/abs/1409.0473",
    ),
    "luong": Paper(
        Luong, LuongConfig, 2015,
        "Effective Approaches to Attention-based Neural Machine Translation",
        "https://arxiv.org/abs/1508.04025",
    ),
    "gnmt": Paper(
        GNMT, GNMTConfig, 2016,
        "Google's Neural Machine Translation System: Bridging the Gap between Human and Machine Translation",
        "https://arxiv.org/abs/1609.08144",
    ),
    "convs2s": Paper(
        ConvS2S, ConvS2SConfig, 2017,
        "Convolutional Sequence to Sequence Learning",
        "https://arxiv.org/abs/1705.03122",
    ),
    "transformer": Paper(
        Transformer, TransformerConfig, 2017,
        "Attention Is All You Need",
        "https://arxiv.org/abs/1706.03762",
    ),
}  # fmt: skip

__all__ = [
    "GNMT",
    "MODELS",
    "Bahdanau",
    "BahdanauConfig",
    "Cho",
    "ChoConfig",
    "ConvS2S",
    "ConvS2SConfig",
    "GNMTConfig",
    "Luong",
    "LuongConfig",
    "Memory",
    "Paper",
    "Sutskever",
    "SutskeverConfig",
    "Transformer",
    "TransformerConfig",
    "Translated",
    "Translator",
    "bahdanau_base",
    "cho_base",
    "convs2s_base",
    "convs2s_iwslt",
    "gnmt_base",
    "luong_global",
    "luong_local_p",
    "sutskever_base",
    "transformer_base",
    "transformer_big",
]

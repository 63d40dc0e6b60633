"""One paper, one file: a frozen config, a class, presets. MODELS says where each comes from."""

from regard.models.bahdanau import Bahdanau, BahdanauConfig, bahdanau_base
from regard.models.classifier import (
    Classified,
    Convolutional,
    ConvolutionalConfig,
    FullyConnected,
    FullyConnectedConfig,
)
from regard.models.convs2s import ConvS2S, ConvS2SConfig, convs2s_base, convs2s_iwslt
from regard.models.dram import DRAM, DRAMConfig, dram_pairs, dram_svhn
from regard.models.dt_ram import DTRAM, DTRAMConfig
from regard.models.encoder_decoder import (
    Cho,
    ChoConfig,
    Sutskever,
    SutskeverConfig,
    cho_base,
    sutskever_base,
)
from regard.models.gat import GAT, GATConfig, gat_citations, gat_inductive
from regard.models.glimpse import Glimpsed
from regard.models.gnmt import GNMT, GNMTConfig, gnmt_base
from regard.models.image_transformer import (
    ImageTransformer,
    ImageTransformerConfig,
    image_transformer_cifar10,
    image_transformer_cifar10_dmol,
)
from regard.models.language_model import Continued, LanguageModel
from regard.models.lstm_language_model import LSTMLanguageModel, LSTMLanguageModelConfig
from regard.models.lstmn import LSTMN, LSTMNConfig, LSTMNLanguageModel
from regard.models.lstmn_reader import LSTMNReader, LSTMNReaderConfig, lstmn_pairs, lstmn_sentiment
from regard.models.lstmn_translator import LSTMNTranslator, LSTMNTranslatorConfig
from regard.models.luong import Luong, LuongConfig, luong_global, luong_local_p
from regard.models.memn2n import MemN2N, MemN2NConfig, memn2n_alone, memn2n_joint
from regard.models.memn2n_language_model import MemN2NLanguageModel, MemN2NLanguageModelConfig
from regard.models.nonlocal_net import NonLocalConfig, NonLocalNet, nonlocal_resnet20, nonlocal_resnet56
from regard.models.ntm import NTM, NTMLSTM, Emitted, NTMConfig, NTMLSTMConfig, ntm_feed_forward, ntm_lstm
from regard.models.ram import RAM, RAMConfig, ram_28, ram_60, ram_100
from regard.models.resnet import ResNet, ResNetConfig, resnet20, resnet32, resnet56
from regard.models.scene_text import SceneText, SceneTextConfig, scene_text_2d, scene_text_base
from regard.models.self_attentive import (
    SelfAttentive,
    SelfAttentiveConfig,
    TextClassified,
    self_attentive_pairs,
    self_attentive_reviews,
)
from regard.models.senet import SENet, SENetConfig, se_resnet20, se_resnet32, se_resnet56
from regard.models.show_attend_tell import Captioned, ShowAttendTell, ShowAttendTellConfig, show_attend_tell_flickr8k
from regard.models.text_detector import Detected, TextDetector, TextDetectorConfig
from regard.models.transformer import Transformer, TransformerConfig, transformer_base, transformer_big
from regard.models.transformer_xl import (
    TransformerXL,
    TransformerXLConfig,
    transformer_xl_enwik8,
    transformer_xl_wikitext103,
)
from regard.models.translator import EncodedSource, Paper, Translated, Translator
from regard.models.video_action import Acted, VideoAction, VideoActionConfig, video_action_paper

MODELS: dict[str, Paper] = {
    "cho": Paper(
        Cho, ChoConfig, 2014,
        "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation",
        "https://arxiv.org/abs/1406.1078", attends=False,
    ),
    "sutskever": Paper(
        Sutskever, SutskeverConfig, 2014,
        "Sequence to Sequence Learning with Neural Networks",
        "https://arxiv.org/abs/1409.3215", attends=False,
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
    "ram": Paper(
        RAM, RAMConfig, 2014, "Recurrent Models of Visual Attention", "https://arxiv.org/abs/1406.6247",
    ),
    "fully_connected": Paper(
        FullyConnected, FullyConnectedConfig, 2014,
        "Recurrent Models of Visual Attention, the fully connected baseline",
        "https://arxiv.org/abs/1406.6247", attends=False,
    ),
    "convolutional": Paper(
        Convolutional, ConvolutionalConfig, 2014, "Recurrent Models of Visual Attention, the convolutional baseline",
        "https://arxiv.org/abs/1406.6247", attends=False,
    ),
    "dram": Paper(
        DRAM, DRAMConfig, 2015, "Multiple Object Recognition with Visual Attention",
        "https://arxiv.org/abs/1412.7755",
    ),
    "dt_ram": Paper(
        DTRAM, DTRAMConfig, 2017, "Dynamic Computational Time for Visual Attention",
        "https://arxiv.org/abs/1703.10332",
    ),
    "show_attend_tell": Paper(
        ShowAttendTell, ShowAttendTellConfig, 2015,
        "Show, Attend and Tell: Neural Image Caption Generation with Visual Attention",
        "https://arxiv.org/abs/1502.03044",
    ),
    "resnet": Paper(
        ResNet, ResNetConfig, 2016, "Deep Residual Learning for Image Recognition",
        "https://arxiv.org/abs/1512.03385", attends=False,
    ),
    "senet": Paper(
        SENet, SENetConfig, 2018, "Squeeze-and-Excitation Networks",
        "https://arxiv.org/abs/1709.01507",
    ),
    "nonlocal": Paper(
        NonLocalNet, NonLocalConfig, 2018, "Non-local Neural Networks",
        "https://arxiv.org/abs/1711.07971",
    ),
    "lstmn": Paper(
        LSTMNLanguageModel, LSTMNConfig, 2016, "Long Short-Term Memory-Networks for Machine Reading",
        "https://arxiv.org/abs/1601.06733",
    ),
    "lstmn_reader": Paper(
        LSTMNReader, LSTMNReaderConfig, 2016,
        "Long Short-Term Memory-Networks for Machine Reading, the classifier of texts and pairs",
        "https://arxiv.org/abs/1601.06733",
    ),
    "lstmn_translator": Paper(
        LSTMNTranslator, LSTMNTranslatorConfig, 2016,
        "Long Short-Term Memory-Networks for Machine Reading, encoder and decoder",
        "https://arxiv.org/abs/1601.06733",
    ),
    "lstm_language_model": Paper(
        LSTMLanguageModel, LSTMLanguageModelConfig, 2016,
        "Long Short-Term Memory-Networks for Machine Reading, the LSTM baseline",
        "https://arxiv.org/abs/1601.06733", attends=False,
    ),
    "transformer_xl": Paper(
        TransformerXL, TransformerXLConfig, 2019,
        "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
        "https://arxiv.org/abs/1901.02860",
    ),
    "ntm": Paper(
        NTM, NTMConfig, 2014, "Neural Turing Machines", "https://arxiv.org/abs/1410.5401",
    ),
    "ntm_lstm": Paper(
        NTMLSTM, NTMLSTMConfig, 2014, "Neural Turing Machines, the LSTM without a memory",
        "https://arxiv.org/abs/1410.5401", attends=False,
    ),
    "self_attentive": Paper(
        SelfAttentive, SelfAttentiveConfig, 2017, "A Structured Self-attentive Sentence Embedding",
        "https://arxiv.org/abs/1703.03130",
    ),
    "memn2n": Paper(
        MemN2N, MemN2NConfig, 2015, "End-To-End Memory Networks", "https://arxiv.org/abs/1503.08895",
    ),
    "gat": Paper(
        GAT, GATConfig, 2018, "Graph Attention Networks", "https://arxiv.org/abs/1710.10903",
    ),
    "image_transformer": Paper(
        ImageTransformer, ImageTransformerConfig, 2018, "Image Transformer", "https://arxiv.org/abs/1802.05751",
    ),
    "scene_text": Paper(
        SceneText, SceneTextConfig, 2019,
        "What Is Wrong With Scene Text Recognition Model Comparisons? (after RARE, ASTER and SAR)",
        "https://arxiv.org/abs/1904.01906",
    ),
    "text_detector": Paper(
        TextDetector, TextDetectorConfig, 2017,
        "EAST: An Efficient and Accurate Scene Text Detector (a small relative with upright boxes)",
        "https://arxiv.org/abs/1704.03155",
    ),
    "video_action": Paper(
        VideoAction, VideoActionConfig, 2019, "Video Action Transformer Network", "https://arxiv.org/abs/1812.02707",
    ),
    "memn2n_language_model": Paper(
        MemN2NLanguageModel, MemN2NLanguageModelConfig, 2015, "End-To-End Memory Networks, the language model",
        "https://arxiv.org/abs/1503.08895",
    ),
}  # fmt: skip

__all__ = [
    "DRAM",
    "DTRAM",
    "GAT",
    "GNMT",
    "LSTMN",
    "MODELS",
    "NTM",
    "NTMLSTM",
    "RAM",
    "Acted",
    "Bahdanau",
    "BahdanauConfig",
    "Captioned",
    "Cho",
    "ChoConfig",
    "Classified",
    "Continued",
    "ConvS2S",
    "ConvS2SConfig",
    "Convolutional",
    "ConvolutionalConfig",
    "DRAMConfig",
    "DTRAMConfig",
    "Detected",
    "Emitted",
    "EncodedSource",
    "FullyConnected",
    "FullyConnectedConfig",
    "GATConfig",
    "GNMTConfig",
    "Glimpsed",
    "ImageTransformer",
    "ImageTransformerConfig",
    "LSTMLanguageModel",
    "LSTMLanguageModelConfig",
    "LSTMNConfig",
    "LSTMNLanguageModel",
    "LSTMNReader",
    "LSTMNReaderConfig",
    "LSTMNTranslator",
    "LSTMNTranslatorConfig",
    "LanguageModel",
    "Luong",
    "LuongConfig",
    "MemN2N",
    "MemN2NConfig",
    "MemN2NLanguageModel",
    "MemN2NLanguageModelConfig",
    "NTMConfig",
    "NTMLSTMConfig",
    "NonLocalConfig",
    "NonLocalNet",
    "Paper",
    "RAMConfig",
    "ResNet",
    "ResNetConfig",
    "SENet",
    "SENetConfig",
    "SceneText",
    "SceneTextConfig",
    "SelfAttentive",
    "SelfAttentiveConfig",
    "ShowAttendTell",
    "ShowAttendTellConfig",
    "Sutskever",
    "SutskeverConfig",
    "TextClassified",
    "TextDetector",
    "TextDetectorConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerXL",
    "TransformerXLConfig",
    "Translated",
    "Translator",
    "VideoAction",
    "VideoActionConfig",
    "bahdanau_base",
    "cho_base",
    "convs2s_base",
    "convs2s_iwslt",
    "dram_pairs",
    "dram_svhn",
    "gat_citations",
    "gat_inductive",
    "gnmt_base",
    "image_transformer_cifar10",
    "image_transformer_cifar10_dmol",
    "lstmn_pairs",
    "lstmn_sentiment",
    "luong_global",
    "luong_local_p",
    "memn2n_alone",
    "memn2n_joint",
    "nonlocal_resnet20",
    "nonlocal_resnet56",
    "ntm_feed_forward",
    "ntm_lstm",
    "ram_28",
    "ram_60",
    "ram_100",
    "resnet20",
    "resnet32",
    "resnet56",
    "scene_text_2d",
    "scene_text_base",
    "se_resnet20",
    "se_resnet32",
    "se_resnet56",
    "self_attentive_pairs",
    "self_attentive_reviews",
    "show_attend_tell_flickr8k",
    "sutskever_base",
    "transformer_base",
    "transformer_big",
    "transformer_xl_enwik8",
    "transformer_xl_wikitext103",
    "video_action_paper",
]

"""Small models of transformers from random weights, one for each kind of attention; nothing is downloaded."""

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

WORDS, WIDTH, LENGTH = 60, 32, 7


def import_transformers() -> Any:
    """The package; a torchvision beside a torch for CPUs has operators that are not there, which it must not mind."""
    register = torch.library.register_fake
    if importlib.util.find_spec("torchvision") is not None:
        torch.library.register_fake = lambda op, *args, **options: (  # type: ignore[assignment]
            (lambda function: function) if str(op).startswith("torchvision::") else register(op, *args, **options)
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import transformers

            transformers.LlamaConfig()
    finally:
        torch.library.register_fake = register
    transformers.logging.set_verbosity_error()
    return transformers


@dataclass(frozen=True)
class Tiny:
    """A family: the class of its model, that of its settings, and what differs from the common settings."""

    model: str
    config: str
    settings: dict[str, Any]
    inputs: Callable[[], dict[str, Tensor]]
    sdpa: bool = True  # whether transformers has a fused way for it


def words() -> dict[str, Tensor]:
    """Two texts, the second of which is padded on the right."""
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, -2:] = 0
    return {"input_ids": torch.randint(3, WORDS, (2, LENGTH)), "attention_mask": mask}


def full_words() -> dict[str, Tensor]:
    """Two texts without padding, so that causal kernels need no mask."""
    return {"input_ids": torch.randint(3, WORDS, (2, LENGTH))}


def both_sides() -> dict[str, Tensor]:
    """A padded source and a target."""
    return {**words(), "decoder_input_ids": torch.randint(3, WORDS, (2, 5))}


def picture() -> dict[str, Tensor]:
    """Two pictures of 8 × 8 pixels."""
    return {"pixel_values": torch.randn(2, 3, 8, 8)}


LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": WIDTH, "intermediate_size": 48}
TEXT = {**LAYERS, "vocab_size": WORDS, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1}
GROUPED = {**TEXT, "num_key_value_heads": 2, "head_dim": 8}
TWO_SIDES = {
    "vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
GPT2 = {"n_layer": 2, "n_head": 4, "n_embd": WIDTH, "n_positions": 64, "vocab_size": WORDS, "pad_token_id": 0}
EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2}

FAMILIES = {
    "bert": Tiny("BertModel", "BertConfig", TEXT, words),
    "llama": Tiny("LlamaForCausalLM", "LlamaConfig", GROUPED, full_words),
    "gpt2": Tiny("GPT2LMHeadModel", "GPT2Config", GPT2, words),
    "mistral": Tiny("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 3}, words),
    "t5": Tiny("T5ForConditionalGeneration", "T5Config", {
        "vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "pad_token_id": 0, "decoder_start_token_id": 1,
    }, both_sides),
    "gpt_oss": Tiny("GptOssForCausalLM", "GptOssConfig", {
        **GROUPED, **EXPERTS, "sliding_window": 3,
    }, words, sdpa=False),
    "bloom": Tiny("BloomForCausalLM", "BloomConfig", {
        "vocab_size": WORDS, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4, "pad_token_id": 0,
    }, words, sdpa=False),
    "vit": Tiny("ViTModel", "ViTConfig", {**LAYERS, "image_size": 8, "patch_size": 4}, picture),
    "marian": Tiny("MarianMTModel", "MarianConfig", TWO_SIDES, both_sides),
    "qwen3": Tiny("Qwen3ForCausalLM", "Qwen3Config", GROUPED, words),
    "mixtral": Tiny("MixtralForCausalLM", "MixtralConfig", {**GROUPED, **EXPERTS}, words),
    "gemma2": Tiny("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "sliding_window": 3}, words, sdpa=False),
    "mpt": Tiny("MptForCausalLM", "MptConfig", {
        "vocab_size": WORDS, "d_model": WIDTH, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "pad_token_id": 0,
    }, words, sdpa=False),
    "falcon": Tiny("FalconForCausalLM", "FalconConfig", {
        **TEXT, "multi_query": True, "new_decoder_architecture": False, "alibi": False,
    }, words),
    "bart": Tiny("BartForConditionalGeneration", "BartConfig", TWO_SIDES, both_sides),
    "whisper": Tiny("WhisperForConditionalGeneration", "WhisperConfig", {
        **{name: value for name, value in TWO_SIDES.items() if name != "max_position_embeddings"},
        "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20,
    }, lambda: {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": torch.randint(3, WORDS, (2, 5))}),
    "wav2vec2": Tiny("Wav2Vec2Model", "Wav2Vec2Config", {
        **LAYERS, "conv_dim": (16, 16), "conv_kernel": (4, 4), "conv_stride": (4, 4), "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0, "vocab_size": WORDS,
    }, lambda: {"input_values": torch.randn(2, 160)}),
    "clip": Tiny("CLIPModel", "CLIPConfig", {
        "text_config": {**TEXT, "eos_token_id": 2}, "vision_config": {**LAYERS, "image_size": 8, "patch_size": 4},
        "projection_dim": 16,
    }, lambda: {**full_words(), **picture()}),
    "distilbert": Tiny("DistilBertModel", "DistilBertConfig", {
        "vocab_size": WORDS, "dim": WIDTH, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64,
    }, words),
    "opt": Tiny("OPTForCausalLM", "OPTConfig", {
        "vocab_size": WORDS, "hidden_size": WIDTH, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 64, "pad_token_id": 0, "word_embed_proj_dim": WIDTH,
    }, words),
    "gpt_neox": Tiny("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT, words),
}  # fmt: skip


def build(name: str, implementation: str = "sdpa", seed: int = 0) -> nn.Module:
    """A small model of this family in evaluation mode; weights from the seed, large enough that attention is uneven."""
    transformers, tiny = import_transformers(), FAMILIES[name]
    config = getattr(transformers, tiny.config)(**tiny.settings)
    config._attn_implementation = implementation if tiny.sdpa else "eager"
    config._experts_implementation = "eager"  # the fused one has no float64
    torch.manual_seed(seed)
    model: nn.Module = getattr(transformers, tiny.model)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6.0 if parameter.std() < 0.05 else 1.0)
    return model


def attentions(name: str, output: Any) -> list[Tensor]:
    """The weights that eager attention returned, in the order in which the layers run."""
    if name == "clip":
        return [*output.vision_model_output.attentions, *output.text_model_output.attentions]
    if "encoder_attentions" in output:
        pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
        return [*output.encoder_attentions, *(tensor for pair in pairs for tensor in pair)]
    return list(output.attentions)


def answer(output: Any) -> Tensor:
    """What a model says: logits, or the states of its last layer."""
    for name in ("logits", "logits_per_text", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            result: Tensor = getattr(output, name)
            return result
    raise AssertionError(f"no answer in {list(output)}")

"""Small models of Hugging Face transformers with random weights, made from their settings, and inputs for them."""

from typing import Any

import torch
from tiny_transformers import import_transformers
from torch import Tensor, nn

transformers = import_transformers()
WORDS = 37
SMALL = {
    "vocab_size": WORDS, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
    "max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2}
PAIR = {
    "vocab_size": WORDS, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 40,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
VISION = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32, "image_size": 12,
    "patch_size": 4,
}  # fmt: skip
SOUND = {
    "vocab_size": 11, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
    "conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0,
}  # fmt: skip

# name → class of the model, class of its settings, settings
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", SMALL),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", SMALL),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", {**SMALL, "embedding_size": 16}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", SMALL),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "multi_query": ("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "num_key_value_heads": 1, "head_dim": 5 * 2}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 6}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 3}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 3, "sliding_window": None}),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**GROUPED, "head_dim": 6, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 3},
    ),
    "gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**GROUPED, "head_dim": 6, "sliding_window": 3, "attn_logit_softcapping": 0.2, "query_pre_attn_scalar": 5},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": WORDS, "d_model": 24, "d_kv": 6, "num_heads": 4, "d_ff": 32, "num_layers": 2,
         "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2},
    ),
    "marian": ("MarianMTModel", "MarianConfig", PAIR),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIR),
    "vit": ("ViTForImageClassification", "ViTConfig", VISION),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {**PAIR, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 40, "suppress_tokens": None,
         "begin_suppress_tokens": None},
    ),
    "wav2vec2": ("Wav2Vec2ForCTC", "Wav2Vec2Config", SOUND),
    "clip": ("CLIPModel", "CLIPConfig", {"text_config": SMALL, "vision_config": VISION, "projection_dim": 8}),
    # written without the interface
    "bloom": ("BloomForCausalLM", "BloomConfig", {**SMALL, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptForCausalLM", "MptConfig",
            {"vocab_size": WORDS, "d_model": 24, "n_layers": 2, "n_heads": 4, "max_seq_len": 40}),
}  # fmt: skip
WITHOUT_INTERFACE = ("bloom", "mpt")
DECODERS = ("gpt2", "gpt_neox", "llama", "multi_query", "qwen3", "mistral", "mixtral", "gpt_oss", "gemma2")
PAIRED = ("t5", "marian", "bart")


def build(name: str, implementation: str = "eager", *, spread: float = 0.15, **settings: Any) -> nn.Module:
    """A model in evaluation mode. Weights are drawn from a seed, wide enough that attention is not near uniform."""
    model_class, config_class, defaults = MODELS[name]
    config = getattr(transformers, config_class)(**{**defaults, **settings})
    kind = getattr(transformers, model_class)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model: nn.Module = kind._from_config(config, attn_implementation=implementation)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for key, weight in sorted(model.named_parameters()):
            if weight.ndim > 1 or "sinks" in key:
                weight.normal_(0.0, 1.0 if "sinks" in key else spread, generator=generator)
    return model.eval()


def inputs(name: str, side: str = "left") -> dict[str, Tensor]:
    """Three texts of 7, 5 and 4 words padded on one side, or pictures or sound, with what else the model takes."""
    generator = torch.Generator().manual_seed(7)
    pictures = torch.randn(2, 3, 12, 12, generator=generator)
    mask = torch.ones(3, 7, dtype=torch.long)
    for row, missing in ((1, 2), (2, 3)):
        mask[row, slice(0, missing) if side == "left" else slice(7 - missing, 7)] = 0
    words = torch.randint(3, WORDS, (3, 7), generator=generator) * mask
    answer = torch.randint(3, WORDS, (3, 5), generator=generator)
    if name == "vit":
        return {"pixel_values": pictures}
    if name == "clip":
        return {"input_ids": words, "attention_mask": mask, "pixel_values": pictures}
    if name == "wav2vec2":
        samples = torch.ones(3, 260, dtype=torch.long)
        samples[1, 200:] = 0
        return {"input_values": torch.randn(3, 260, generator=generator) * samples, "attention_mask": samples}
    if name == "whisper":
        return {"input_features": torch.randn(3, 8, 20, generator=generator), "decoder_input_ids": answer}
    if name in PAIRED:
        answered = torch.ones(3, 5, dtype=torch.long)
        answered[2, 3:] = 0
        decoder = {"decoder_input_ids": answer, "decoder_attention_mask": answered}
        return {"input_ids": words, "attention_mask": mask, **decoder}
    return {"input_ids": words, "attention_mask": mask}


def kept_positions(given: dict[str, Tensor]) -> Tensor | None:
    """Which positions of the output are words [b q], or None where there is no padding or it has another length."""
    if "pixel_values" in given or "input_values" in given or "input_features" in given:
        return None
    return given.get("decoder_attention_mask", given["attention_mask"]).bool()


def predictions(model: nn.Module, given: dict[str, Tensor], **asked: Any) -> tuple[Tensor, Any]:
    """The numbers that the model predicts at words, and all that it returned."""
    out = model(**given, **asked)
    logits: Tensor = out.logits if hasattr(out, "logits") else torch.cat([out.text_embeds, out.image_embeds])
    kept = kept_positions(given)
    return logits if kept is None else logits[kept], out


def gradients(model: nn.Module, predicted: Tensor) -> dict[str, Tensor]:
    """The gradient of each parameter, of a loss that looks at every number in another way."""
    model.zero_grad()
    factors = torch.randn(predicted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (predicted * factors.to(predicted.dtype)).mean().backward()
    return {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}

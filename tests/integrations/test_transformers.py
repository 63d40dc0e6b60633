import copy
import inspect
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from entmax import entmax15
from torch import Tensor, nn
from transformers_zoo import (
    DECODERS,
    MODELS,
    WITHOUT_INTERFACE,
    build,
    gradients,
    inputs,
    kept_positions,
    predictions,
    transformers,
)

from regard.align import Entmax, Monotonic, Softmax, Sparsemax
from regard.attention import trace
from regard.base import ConfigError, ImplementationUnavailable, MissingExtra, RegardError
from regard.integrations.transformers import attention_forward, attention_layers, register, set_attention
from regard.score import Additive, Cosine, LocationAware, ScaledDot

register()
THROUGH = [name for name in MODELS if name not in WITHOUT_INTERFACE]


def both(name: str, **settings: Any) -> tuple[nn.Module, nn.Module]:
    """The same model with our attention and with its own."""
    return build(name, "regard", **settings), build(name, "eager", **settings)


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def same_weights(ours: Any, theirs: Any, given: dict[str, Tensor]) -> int:
    """Compares all `attentions` of two outputs at the rows of words; returns how many tensors there were."""
    count = 0
    for key in (key for key in theirs if "attentions" in key):
        assert len(ours[key]) == len(theirs[key])
        for mine, eager in zip(ours[key], theirs[key], strict=True):
            assert (mine.shape, mine.dtype) == (eager.shape, eager.dtype)
            kept = (
                given["attention_mask"].bool()
                if "encoder" in key and "attention_mask" in given
                else kept_positions(given)
            )
            if kept is not None:
                mine, eager = (x.transpose(1, 2)[kept] for x in (mine, eager))
            close(mine, eager)
            count += 1
    return count


@pytest.mark.parametrize("name", THROUGH)
def test_it_is_the_model_s_own_mathematics(name: str) -> None:
    """Logits, gradients of all parameters, and weights, with padding on either side."""
    ours, theirs = both(name)
    for side in ("left", "right"):
        given = inputs(name, side)
        for asked in (False, True):
            (mine, my_output), (eager, output) = (
                predictions(model, given, output_attentions=asked) for model in (ours, theirs)
            )
            close(mine, eager)
            my_gradients, eager_gradients = gradients(ours, mine), gradients(theirs, eager)
            assert my_gradients.keys() == eager_gradients.keys()
            for key, gradient in eager_gradients.items():
                close(my_gradients[key], gradient)
            attentions = same_weights(my_output, output, given)
            assert (attentions > 0) == (asked and name != "clip")


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "llama", "mistral", "gpt_oss", "gemma2", "t5", "whisper"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt_neox", "multi_query", "qwen3", "mixtral")),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("marian", "bart")),
    ],
)
def test_the_same_tokens_are_generated(name: str) -> None:
    ours, theirs = both(name)
    given = {key: value for key, value in inputs(name).items() if not key.startswith("decoder")}
    ways: list[dict[str, Any]] = [{"num_beams": 1}, {"num_beams": 3, "num_return_sequences": 2}]
    ways += [{"num_beams": 1, "cache_implementation": "static"}] if name in (*DECODERS, "t5") else []
    for way in ways:
        asked = {"max_new_tokens": 6, "do_sample": False, "output_scores": True, "return_dict_in_generate": True, **way}
        mine, eager = (model.generate(**given, **asked) for model in (ours, theirs))
        assert mine.sequences.tolist() == eager.sequences.tolist(), way
        assert len(mine.scores) == len(eager.scores)
        for step, expected in zip(mine.scores, eager.scores, strict=True):
            close(step, expected, 1e-4)


def test_generation_gives_the_weights_of_each_step() -> None:
    ours, theirs = both("mistral")
    given = inputs("mistral", "left")
    asked = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, "output_attentions": True}
    mine, eager = (model.generate(**given, **asked).attentions for model in (ours, theirs))
    for step, expected in zip(mine, eager, strict=True):
        for layer, expected_layer in zip(step, expected, strict=True):
            close(layer[0], expected_layer[0])  # the text without padding


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "gemma2"])
def test_packed_texts_do_not_see_each_other(name: str) -> None:
    ours, theirs = both(name)
    words = inputs(name)["input_ids"][:1, :7]
    places = torch.tensor([[0, 1, 2, 0, 1, 0, 1]])
    mine, eager = (model(input_ids=words, position_ids=places, use_cache=False).logits for model in (ours, theirs))
    close(mine, eager)
    if name != "gpt_oss":  # which does not show the places to its masks
        close(mine[:, 3:5], ours(input_ids=words[:, 3:5]).logits)


def test_masks_that_a_caller_makes() -> None:
    """Numbers that are added, a boolean mask, and a plain causal mask agree."""
    model, words = build("llama", "regard"), inputs("llama")["input_ids"][:1]
    allowed = torch.ones(7, 7, dtype=torch.bool).tril()[None, None]
    numbers = torch.zeros(1, 1, 7, 7).masked_fill(~allowed, torch.finfo(torch.float32).min)
    expected = build("llama")(input_ids=words).logits
    for mask in (None, allowed, numbers):
        close(model(input_ids=words, attention_mask=mask).logits, expected)


def test_fused_where_it_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain causal mask is no tensor for the kernel. Soft caps and wanted weights take plain operations."""
    calls: list[dict[str, Any]] = []
    kernel = F.scaled_dot_product_attention

    def counted(*args: Any, **kwargs: Any) -> Tensor:
        calls.append(kwargs)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    words = inputs("llama")["input_ids"][:1]
    build("llama", "regard")(input_ids=words)
    assert [(call["is_causal"], call["attn_mask"]) for call in calls] == [(True, None)] * 2
    calls.clear()
    build("t5", "regard")(**inputs("t5"))
    assert len(calls) == 6
    calls.clear()
    build("gpt_oss", "regard")(input_ids=words)
    assert len(calls) == 2
    calls.clear()
    for name, asked in (("gemma2", False), ("gpt_oss", True), ("llama", True)):
        build(name, "regard")(input_ids=words, output_attentions=asked)
    assert calls == []


def test_a_trace_has_the_names_and_weights_of_the_layers() -> None:
    ours, theirs = both("t5")
    given = inputs("t5", "right")
    output = theirs(**given, output_attentions=True)
    with trace(ours) as seen, torch.no_grad():
        ours(**given)
    assert list(seen) == attention_layers(ours)
    for number in range(2):
        for layer, weights in (
            (f"encoder.block.{number}.layer.0.SelfAttention", output.encoder_attentions),
            (f"decoder.block.{number}.layer.0.SelfAttention", output.decoder_attentions),
            (f"decoder.block.{number}.layer.1.EncDecAttention", output.cross_attentions),
        ):
            np.testing.assert_allclose(seen[layer].weights, weights[number].detach(), atol=1e-5)
    with trace(ours, layers="*.1.EncDecAttention", rows=[-1], heads=[2]) as one, torch.no_grad():
        ours(**given)
    last = one["decoder.block.1.layer.1.EncDecAttention"].weights
    np.testing.assert_allclose(last, output.cross_attentions[1][:, 2:3, -1:].detach(), atol=1e-5)


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dropout_draws_what_eager_draws_and_returns_what_eager_returns() -> None:
    """Weights in `output_attentions` are those after dropout, as in eager; a trace has those before."""
    settings = {"attention_probs_dropout_prob": 0.4, "hidden_dropout_prob": 0.0}
    ours, theirs = (model.train() for model in both("bert", **settings))
    given, outputs = inputs("bert", "right"), []
    for model in (ours, theirs):
        torch.manual_seed(5)
        outputs.append(predictions(model, given, output_attentions=True))
    close(outputs[0][0], outputs[1][0])
    assert same_weights(outputs[0][1], outputs[1][1], given) == 2
    assert (outputs[0][1].attentions[0][0] == 0).any()
    with trace(ours) as seen:
        ours(**given)
    assert (seen[0].weights[0] > 0).all()


def test_heads_that_are_switched_off() -> None:
    """`head_mask` of transformers 4 [h], or [1 h 1 1], multiplies the weights of heads."""
    query, key, value = (torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(n)) for n in range(3))
    factors = torch.tensor([1.0, 0.0, 0.5])
    plain, _ = attention_forward(nn.Identity(), query, key, value)
    for head_mask in (factors, factors.view(1, 3, 1, 1)):
        context, weights = attention_forward(nn.Identity(), query, key, value, head_mask=head_mask)
        close(context, plain * factors.view(1, 1, 3, 1))
        assert weights is not None
        close(weights.sum(-1), factors.view(1, 3, 1).expand(2, 3, 5))


def test_means_over_dropout_agree() -> None:
    settings = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.0}
    ours, theirs = (model.train() for model in both("bert", **settings))
    given = {key: value.repeat(160, 1) for key, value in inputs("bert").items()}
    torch.manual_seed(0)
    with torch.no_grad():
        mine, eager = (
            torch.cat([model(**given).logits for _ in range(2)]).view(-1, 3, *model(**given).logits.shape[1:])
            for model in (ours, theirs)
        )
    spread = (mine.var(0) / len(mine) + eager.var(0) / len(eager)).sqrt()
    distance = ((mine.mean(0) - eager.mean(0)) / spread.clamp(min=1e-4))[given["attention_mask"][:3].bool()]
    assert distance.square().mean().sqrt() < 1.5  # of independent draws: 1
    close(mine.std(0).mean(), eager.std(0).mean(), 0.03)
    assert mine.std(0).mean() > 1e-3


# ── other scores and alignments ─────────────────────────────────────────────────────────────────────────────────────


def test_another_alignment_in_some_layers() -> None:
    """Entmax of the model's own scores, which the logarithm of its softmax is but for a constant in each row."""
    model, given = build("gpt2", "sdpa"), inputs("gpt2", "right")
    keys, own = set(model.state_dict()), build("gpt2")(**given, output_attentions=True)
    assert set_attention(model, align=Entmax(1.5), layers="transformer.h.0.*") == ["transformer.h.0.attn"]
    assert model.config._attn_implementation == "regard"
    assert set(model.state_dict()) == keys
    with trace(model) as seen, torch.no_grad():
        output = model(**given, output_attentions=True)
    first, second = output.attentions
    close(first, entmax15(own.attentions[0].log().clamp(min=-1e4), dim=-1))
    np.testing.assert_allclose(seen["transformer.h.0.attn"].weights, first, atol=1e-6)
    assert (first == 0).sum() > (second == 0).sum()
    twin = copy.deepcopy(model)
    close(twin(**given).logits, output.logits)
    assert set_attention(model) == ["transformer.h.0.attn", "transformer.h.1.attn"]
    close(model(**given).logits, own.logits)
    close(twin(**given).logits, output.logits)


def test_bias_cap_and_sinks_stay_with_another_alignment() -> None:
    """Softmax in place of softmax changes nothing, wherever the model adds something to it."""
    for name in ("t5", "gpt_oss", "gemma2"):
        ours, theirs = both(name)
        set_attention(ours, align=Softmax(), score=None)
        close(*(predictions(model, inputs(name))[0] for model in (ours, theirs)))
    model = build("gpt_oss", "regard")
    set_attention(model, align=Sparsemax())
    weights = model(**inputs("gpt_oss"), output_attentions=True).attentions[0][0]
    assert (weights.sum(-1) < 0.999).any()
    assert (weights.sum(-1) < 1 + 1e-5).all()


def test_another_score() -> None:
    """A score stands in for product and scale: √d times as large, it is what the scaled score is at another scale."""
    model, given = build("llama", "regard"), inputs("llama", "right")
    expected = model(**given).logits
    set_attention(model, score=ScaledDot())
    close(model(**given).logits, expected)
    set_attention(model, score=Cosine())
    weights = model(**given, output_attentions=True).attentions[0]
    assert (model(**given).logits - expected).abs().max() > 1e-3
    close(weights.sum(-1), torch.ones(3, 4, 7))


def test_learnt_scores_are_part_of_the_model() -> None:
    model, given = build("bert", "regard"), inputs("bert")
    before = set(model.state_dict())
    set_attention(model, score=Additive(6, 6, 5), layers="*.1.*")
    new = set(model.state_dict()) - before
    prefix = "bert.encoder.layer.1.attention.self.regard_attention.score."
    assert new == {prefix + name for name in Additive(6, 6, 5).state_dict()}
    assert new <= set(gradients(model, predictions(model, given)[0]))
    set_attention(model, layers="*.1.*")
    assert set(model.state_dict()) == before
    set_attention(model, score=Additive(6, 6, 5))
    scores = [layer.regard_attention.score for layer in model.modules() if hasattr(layer, "regard_attention")]
    assert len(scores) == 2
    assert not {id(x) for x in scores[0].parameters()} & {id(x) for x in scores[1].parameters()}


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_layers_and_models() -> None:
    model = build("llama", "regard")
    layers = "model.layers.0.self_attn, model.layers.1.self_attn"
    with pytest.raises(ConfigError, match=rf"has this name: got '\*.attn'; expected a pattern for {layers}"):
        set_attention(model, align=Softmax(), layers="*.attn")
    with pytest.raises(ConfigError, match="no layer of Linear takes its attention function from transformers"):
        set_attention(nn.Linear(2, 2), align=Softmax())
    with pytest.raises(ConfigError, match="align must be an object, not a class: got Entmax"):
        set_attention(model, align=Entmax)  # type: ignore[arg-type]


def test_layers_that_transformers_does_not_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama", "sdpa")
    monkeypatch.setattr(transformers.PreTrainedModel, "set_attn_implementation", lambda self, name: None)
    with pytest.raises(
        ImplementationUnavailable, match=r"let model.layers.0.self_attn use 'regard': it stays with 'sdpa'"
    ):
        set_attention(model, align=Softmax())


@pytest.mark.parametrize("name", WITHOUT_INTERFACE)
def test_models_without_the_interface_run_their_own_code(name: str) -> None:
    ours, theirs = both(name)
    given = inputs(name)
    close(predictions(ours, given)[0], predictions(theirs, given)[0])
    with pytest.raises(ConfigError, match="takes its attention function from transformers"):
        set_attention(ours, align=Entmax(1.5))


@pytest.mark.parametrize(("what", "function"), [("score", LocationAware(6, 6, 4)), ("align", Monotonic())])
def test_what_needs_earlier_steps_is_refused(what: str, function: Any) -> None:
    with pytest.raises(ConfigError, match=f"cannot have this {what}: got {type(function).__name__}, which needs"):
        set_attention(build("llama", "regard"), **{what: function})


def test_what_only_other_kernels_know_is_refused() -> None:
    layer, x = nn.Linear(2, 2), torch.zeros(1, 1, 2, 2)
    with pytest.raises(ImplementationUnavailable, match=r"Linear chooses blocks of keys by itself.*eager"):
        attention_forward(layer, x, x, x, None, block_indices=torch.zeros(1))
    with pytest.raises(ImplementationUnavailable, match="continuous batching keeps keys in pages"):
        attention_forward(layer, x, x, x, None, cache=object())


def test_keys_that_a_model_chooses() -> None:
    """The keys of `indices` alone, of those that the mask allows: against a softmax over a list of them."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    indices = torch.stack([torch.randperm(5, generator=generator)[:3] for _ in range(10)]).view(2, 5, 3)
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    for asked in (False, True):
        context, weights = attention_forward(
            nn.Identity(), query, key, value, mask, indices=indices, scaling=0.3, output_attentions=asked
        )
        assert (weights is not None) == asked
        for item, head, row in np.ndindex(2, 3, 5):
            seen = [place for place in indices[item, row].tolist() if place <= row]
            expected = torch.zeros(4, dtype=torch.float64)
            if seen:
                scores = key[item, head, seen] @ query[item, head, row] * 0.3
                expected = torch.softmax(scores, 0) @ value[item, head, seen]
            close(context[item, row, head], expected, 1e-12)


def test_missing_and_old_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"this needs transformers, which is not installed. Try: pip install transf"):
        register()
    old = types.ModuleType("transformers")
    old.__version__ = "4.49.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", old)
    with pytest.raises(RegardError, match=r"got 4.49.0; expected 4.56 or newer. Try: pip install 'transformers>=4.56'"):
        register()


# ── attacks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_text_one_word_and_nothing_but_padding() -> None:
    for name in ("bert", "llama", "gpt_oss", "gemma2"):
        ours, theirs = both(name)
        for shape in ((1, 1), (1, 6), (4, 1)):
            words = torch.randint(3, 37, shape, generator=torch.Generator().manual_seed(2))
            close(ours(input_ids=words).logits, theirs(input_ids=words).logits)
        words, mask = inputs(name)["input_ids"], torch.ones(3, 7, dtype=torch.long)
        mask[1] = 0
        output = ours(input_ids=words, attention_mask=mask, output_attentions=True)
        output.logits.sum().backward()
        assert all(bool(weight.grad.isfinite().all()) for weight in ours.parameters() if weight.grad is not None)
        assert (output.attentions[0][1] == 0).all()
        close(output.logits[::2], theirs(input_ids=words, attention_mask=mask).logits[::2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    """Not farther from float32 than twice as far as eager is."""
    for name in ("llama", "gpt_oss", "gemma2"):
        given = inputs(name, "right")
        reference = predictions(build(name), given)[0]
        ours, theirs = (model.to(dtype) for model in both(name))
        mine, eager = (predictions(model, given)[0] for model in (ours, theirs))
        assert mine.dtype == dtype
        error, eager_error = ((x - reference).abs().mean() for x in (mine, eager))
        assert error <= 2 * eager_error, (name, error, eager_error)


def test_without_gradient_and_with_odd_widths() -> None:
    ours, theirs = both("bert", hidden_size=21, num_attention_heads=3)
    given = inputs("bert")
    with torch.no_grad():
        close(*(predictions(model, given, output_attentions=True)[0] for model in (ours, theirs)))
    for model in (ours, theirs):
        model.requires_grad_(False)
        model.cls.requires_grad_(True)
    mine, eager = (gradients(model, predictions(model, given, output_attentions=True)[0]) for model in (ours, theirs))
    assert mine.keys() == eager.keys()
    for key, gradient in eager.items():
        close(mine[key], gradient)


def test_registering_is_harmless_and_late() -> None:
    before = transformers.AttentionInterface._global_mapping["regard"]
    register()
    assert transformers.AttentionInterface._global_mapping["regard"] is before
    model = build("llama")
    model.set_attn_implementation("regard")
    close(model(**inputs("llama")).logits[0], build("llama")(**inputs("llama")).logits[0])


@pytest.mark.bare
@pytest.mark.slow
@pytest.mark.parametrize("align", [None, Entmax(1.5)])
def test_a_compiled_model(align: Entmax | None) -> None:
    """One graph, with padding and without, and the same numbers."""
    torch._dynamo.reset()
    model = build("llama", "regard")
    set_attention(model, align=align)
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=False)
    for padded in (True, False):
        given = inputs("llama")
        given = given if padded else {"input_ids": given["input_ids"][:1]}
        mine, own = compiled(**given).logits, model(**given).logits
        kept = given.get("attention_mask", torch.ones(1, 7)).bool()
        close(mine[kept], own[kept])


SHRUNKEN = {
    "vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 32, "max_position_embeddings": 40, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    "d_ff": 32, "d_kv": 6, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "head_dim": 6, "sliding_window": 3,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4, "v_head_dim": 6, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "ffn_dim": 32,
    "embedding_size": 16, "word_embed_proj_dim": 24, "image_size": 12, "patch_size": 4, "attention_chunk_size": 4,
}  # fmt: skip
MORE = [
    "Albert", "Camembert", "Ernie", "XLMRoberta", "ModernBert", "Arcee", "BioGpt", "Cohere", "Cohere2",
    "DeepseekV3", "DeepseekV32", "Doge", "Ernie4_5", "Exaone4", "Gemma", "Gemma3Text", "Glm", "Glm4",
    "GlmMoeDsa", "GPTBigCode", "Granite", "Helium", "Llama4Text", "Nemotron", "Olmo", "Olmo2", "Olmoe", "OPT",
    "Phi3", "Qwen2", "Qwen2Moe", "Qwen3Moe", "SmolLM3", "StableLm", "Starcoder2", "VaultGemma", "MBart",
    "MT5", "Pegasus", "SwitchTransformers", "UMT5", "Beit", "DeiT", "Dinov2", "ViTMSN",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_many_more_architectures(name: str) -> None:
    """Logits and weights of models made from their settings by name, without padding and with it."""
    auto, config_class = transformers.models.auto.modeling_auto, getattr(transformers, f"{name}Config")
    menus = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_CLASSIFICATION")
    kinds = [getattr(auto, f"MODEL_FOR_{menu}_MAPPING").get(config_class, None) for menu in menus]
    kind = next(kind for kind in kinds if kind is not None)
    is_picture, is_pair = kind is kinds[3], kind is kinds[2]
    kind = kind[0] if isinstance(kind, tuple) else kind
    fields = {*inspect.signature(config_class.__init__).parameters, *getattr(config_class, "__dataclass_fields__", ())}
    models = []
    for implementation in ("regard", "eager"):
        torch.manual_seed(0)
        config = config_class(**{key: value for key, value in SHRUNKEN.items() if key in fields})
        model = kind._from_config(config, attn_implementation=implementation)
        for key, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                nn.init.normal_(weight, 0.0, 0.15, generator=torch.Generator().manual_seed(len(key)))
        models.append(model.eval().float())
    assert attention_layers(models[0])
    given = inputs("vit" if is_picture else "bart" if is_pair else "llama", "right")
    for case in ({key: value for key, value in given.items() if "mask" not in key}, given):
        mine, eager = (predictions(model, {**given, **case}, output_attentions=True) for model in models)
        close(mine[0], eager[0], 1e-4)
        assert same_weights(mine[1], eager[1], given) > 0
        with torch.no_grad():
            close(predictions(models[0], {**given, **case})[0], eager[0], 1e-4)

"""The same Transformer in Hugging Face's library, with our weights: the peer of the translation benchmarks.

Both are compared at equal arithmetic: sinusoidal positions, embeddings scaled by √dim and tied with the softmax, ReLU,
dropout in the same places, torch's scaled_dot_product_attention. Where the norms stand decides the class: Marian has
them after the layers only; Pegasus is the same code with the norms before the layers (`pre_norm`).

`transformers` is a peer and not a dependency of regard: pip install transformers, best in an environment of its own.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.position import sinusoid
from regard.data import BOS, EOS, PAD, TokenBatch
from regard.models import Transformer, TransformerConfig
from regard.models.translator import Translated
from regard.tasks import Loss, Translation, TranslationConfig

SMOOTHING = 0.1


def build_peer(config: TransformerConfig, *, max_positions: int = 512) -> Any:
    """Hugging Face's model for the config of ours; its weights are drawn anew."""
    try:
        import transformers
    except ImportError as error:
        raise SystemExit(f"this part compares with Hugging Face ({error}): pip install transformers") from error
    if config.tie != "all" or config.position != "sinusoidal":
        raise SystemExit(f"the peer ties all embeddings and has sinusoidal positions, not {config}")
    transformers.logging.set_verbosity_error()
    sides = {
        f"{side}_{name}": value
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        for name, value in (("layers", layers), ("ffn_dim", config.hidden_dim), ("attention_heads", config.num_heads))
    }
    settings = {
        **sides,
        "vocab_size": config.source_vocabulary,
        "d_model": config.dim,
        "activation_function": "relu",
        "dropout": config.dropout,
        "activation_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "scale_embedding": True,
        "max_position_embeddings": max_positions,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "attn_implementation": "sdpa",
    }
    if config.pre_norm:
        return transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(**settings))
    return transformers.MarianMTModel(transformers.MarianConfig(**settings))


def module_pairs(ours: Transformer, theirs: Any) -> list[tuple[nn.Module, nn.Module]]:
    """Modules that hold the same weights under other names, ours first."""

    def attention(source: MultiHead, target: Any) -> list[tuple[nn.Module, nn.Module]]:
        projections = (source.to_query, source.to_keys, source.to_values, source.to_output)
        return list(zip(projections, (target.q_proj, target.k_proj, target.v_proj, target.out_proj), strict=True))

    pairs: list[tuple[nn.Module, nn.Module]] = [(ours.source, theirs.model.shared)]
    layers: Any = [
        *zip(ours.encoder, theirs.model.encoder.layers, strict=True),
        *zip(ours.decoder, theirs.model.decoder.layers, strict=True),
    ]
    for source, target in layers:
        pairs += attention(source.inner, target.self_attn)
        pairs.append((source.around_inner.norm, target.self_attn_layer_norm))
        if hasattr(source, "cross"):
            pairs += attention(source.cross, target.encoder_attn)
            pairs.append((source.around_cross.norm, target.encoder_attn_layer_norm))
        pairs += [(source.feed.widen, target.fc1), (source.feed.narrow, target.fc2)]
        pairs.append((source.around_feed.norm, target.final_layer_norm))
    if ours.config.pre_norm:
        pairs.append((ours.encoder_norm, theirs.model.encoder.layer_norm))
        pairs.append((ours.decoder_norm, theirs.model.decoder.layer_norm))
    return pairs


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: Any) -> None:
    """Give the peer our weights and our order of sines and cosines."""
    for here, there in module_pairs(ours, theirs):
        there.load_state_dict(here.state_dict())
    for side in (theirs.model.encoder, theirs.model.decoder):
        table = side.embed_positions.weight.requires_grad_(False)
        table.copy_(sinusoid(torch.arange(float(len(table))), table.shape[1]))


def parameter_pairs(ours: Transformer, theirs: Any) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """All parameters of both models, in the same order."""
    pairs = module_pairs(ours, theirs)
    here, there = ([parameter for pair in pairs for parameter in pair[side].parameters()] for side in (0, 1))
    for model, listed in ((ours, here), (theirs, there)):
        wanted = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
        assert wanted == {id(parameter) for parameter in listed}, "a parameter has no counterpart"
    return here, there


class Peer(nn.Module):
    """Hugging Face's model behind our interface, so that our trainer's steps can train it.

    LayerDrop, which nobody asked for here, draws a random number for each layer on the host and branches on it, and
    this cuts a compiled model into many graphs. So encoder and decoder are told that they are not in training, and the
    one dropout of their own, that of the embeddings, stands in front of their first layer.
    """

    def __init__(self, model: Any, dropout: float) -> None:
        super().__init__()
        self.model, self.dropout = model, dropout
        for side in self._sides():
            side.layers[0].register_forward_pre_hook(self._drop)

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
        """All words at once."""
        mask = (torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(1)).long()
        out = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False)
        return Translated(out.logits, None)

    def train(self, mode: bool = True) -> "Peer":
        """Switch dropout on or off."""
        super().train(mode)
        for side in self._sides():
            side.training = False
        return self

    def to_half(self) -> None:
        """Positions and the constant bias of the logits in bfloat16, for weights in bfloat16."""
        for side in self._sides():
            side.embed_positions.weight.data = side.embed_positions.weight.data.bfloat16()
        self.model.final_logits_bias = self.model.final_logits_bias.bfloat16()

    def _sides(self) -> tuple[Any, Any]:
        return self.model.model.encoder, self.model.model.decoder

    def _drop(self, layer: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return F.dropout(given[0], self.dropout, layer.training), *given[1:]


def peer_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy with smoothed labels as one writes it in plain PyTorch, summed over the real targets."""
    flat = logits.flatten(0, 1).float() if logits.dtype != torch.float64 else logits.flatten(0, 1)
    return F.cross_entropy(flat, targets.flatten(), label_smoothing=SMOOTHING, ignore_index=PAD, reduction="sum")


def summed_loss(model: Callable[..., Any], source: Tensor, lengths: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """Model and loss in one function, so that torch.compile sees both."""
    return peer_loss(model(source, lengths, inputs).logits, targets)


class PeerTask(Translation):
    """The task with the loss of the peer; `mode` is that of torch.compile, None runs it eagerly."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__(TranslationConfig(), splits={})
        self.total = summed_loss if mode is None else torch.compile(summed_loss, dynamic=True, mode=mode)

    def loss(self, model: Callable[..., Any], batch: TokenBatch) -> Loss:
        """The loss of one batch."""
        return Loss(self.total(model, batch.source, batch.source_lengths, batch.inputs, batch.targets))

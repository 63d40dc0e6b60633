"""ConvS2S: Gehring et al. 2017, arXiv 1705.03122. Section and equation numbers are those of the paper.

A convolution is a linear layer over windows of `kernel` items: the same numbers, and one code for whole sentences and
for single words. Where the paper and the authors' code differ, the code decides: values are (z + e)·√0.5, the query of
a layer is made before its residual is added, and the encoder's gradient is divided by twice the number of attentions.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from regard.attention import Learned, Mask
from regard.base import check_settings
from regard.base.ranges import Count, Few, Share, Vocabulary, Width
from regard.decode import Step
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import Dropout, build_attention, padding
from regard.score import Prepared

HALF = math.sqrt(0.5)  # the sum of two parts of one variance, times this, has that variance again (3.4)


@dataclass(frozen=True)
class ConvS2SConfig:
    """Sizes of the paper's English–Romanian model (4.2); any score and any alignment, in every decoder layer."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 512  # width of a word
    dim: Width = 512  # width of the model
    kernel: Few = 3  # width of a convolution, in words
    encoder_layers: Few = 20  # layers of the encoder
    decoder_layers: Few = 20  # layers of the decoder
    output_dim: Width = 512  # width before the output layer
    max_positions: Count = 1024  # longer sentences raise ShapeError
    score: str = "dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.1  # share of the numbers that are set to zero in training

    def __post_init__(self) -> None:
        check_settings(self, "model")


def convs2s_base(source_vocabulary: int, target_vocabulary: int) -> ConvS2SConfig:
    """20 + 20 layers of width 512: WMT16 English–Romanian."""
    return ConvS2SConfig(source_vocabulary, target_vocabulary)


def convs2s_iwslt(source_vocabulary: int, target_vocabulary: int) -> ConvS2SConfig:
    """4 + 3 layers of width 256, for IWSLT14 German–English: 9.6 M parameters with 8848 and 6632 sub-words."""
    return ConvS2SConfig(
        source_vocabulary,
        target_vocabulary,
        embed_dim=256,
        dim=256,
        encoder_layers=4,
        decoder_layers=3,
        output_dim=256,
        dropout=0.2,
    )


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x, exactly; its gradient times `factor`.

    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> scale_gradient(x, 0.25).backward()
    >>> x.grad
    tensor([0.2500])
    """
    still = x.detach()
    return still + factor * (x - still)


class Block(nn.Module):
    """[A B] = W X + b over windows of k items, then the gate v = A ⊗ σ(B) (3.2): [b t+k−1 d] → [b t d]."""

    def __init__(self, dim: int, kernel: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.kernel = kernel
        self.linear = _linear(kernel * dim, 2 * dim, gain=4.0, dropout=dropout)

    def forward(self, x: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        """The items of x that have a whole window; the k − 1 others come from the caller."""
        length = x.shape[1] - self.kernel + 1
        windows = torch.cat([x[:, i : i + length] for i in range(self.kernel)], -1)
        return F.glu(self.linear(windows), -1)


class DecoderBlock(nn.Module):
    """The parts of one decoder layer: a block, and attention between W_d and W_o (3.3)."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        embed, dim = config.embed_dim, config.dim
        self.block = Block(dim, config.kernel, dropout=config.dropout)
        self.to_query = _linear(dim, embed)
        self.attention = build_attention(
            config.score,
            config.align,
            query_dim=embed,
            key_dim=embed,
            hidden_dim=embed,
            max_keys=config.max_positions,
        )
        self.to_output = _linear(embed, dim)


class State(NamedTuple):
    """What goes from word to word."""

    caches: tuple[Tensor, ...]  # the last k − 1 inputs of each layer [n k−1 d]
    keys: tuple[Tensor, ...]  # z_j, prepared once for each layer [n k a]
    values: Tensor  # (z_j + e_j)·√0.5 [n k m]
    gain: Tensor  # √m, m the number of real words [n 1 1]
    allowed: Tensor  # [n 1 k], True = may attend
    previous: tuple[Tensor | None, ...]  # weights of the word before [n k], one for each layer
    time: int | Tensor


class ConvS2S(Translator):
    """Gated convolutions on both sides; every layer of the decoder attends."""

    source_layers = "decoder.*.attention"

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.config = config
        embed, dim, dropout = config.embed_dim, config.dim, config.dropout
        self.source = nn.Embedding(config.source_vocabulary, embed, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, embed, padding_idx=0)
        self.source_place = Learned(config.max_positions, embed)  # 3.1
        self.target_place = Learned(config.max_positions, embed)
        for table in (self.source, self.target, self.source_place, self.target_place):
            nn.init.normal_(table.weight, std=0.1)  # 3.5
        for embedding in (self.source, self.target):
            nn.init.zeros_(embedding.weight[0])
        self.source_in, self.source_out = _linear(embed, dim, dropout=dropout), _linear(dim, embed)
        self.encoder = nn.ModuleList(Block(dim, config.kernel, dropout=dropout) for _ in range(config.encoder_layers))
        self.target_in, self.target_out = _linear(embed, dim, dropout=dropout), _linear(dim, config.output_dim)
        self.decoder = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_layers))
        self.to_logits = _linear(config.output_dim, config.target_vocabulary, dropout=dropout)
        self.dropout = Dropout(dropout)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """Values (z + e)·√0.5 and, as the summary, the keys z. Padding is zero at the door of every block."""
        embedded = self.dropout(self.source_place(self.source(source)))  # e = w + p
        empty, left = padding(source, lengths), (self.config.kernel - 1) // 2
        x = self.source_in(embedded)
        for block in self.encoder:
            entry = self.dropout(x).masked_fill(empty, 0.0)
            x = (block(F.pad(entry, (0, 0, left, self.config.kernel - 1 - left))) + x) * HALF
        outputs = self.source_out(x).masked_fill(empty, 0.0)
        keys = scale_gradient(outputs, 1 / (2 * self.config.decoder_layers))  # z, read by every layer (3.4), twice
        return EncodedSource((keys + embedded) * HALF, lengths, keys)

    def init_state(self, memory: EncodedSource) -> State:
        """Zeros before the first word; the keys are prepared here, once for each layer."""
        layers = [layer for layer in self.decoder if isinstance(layer, DecoderBlock)]
        batch, num_keys, _ = memory.values.shape
        cache = memory.values.new_zeros(batch, self.config.kernel - 1, self.config.dim)
        return State(
            caches=(cache,) * len(layers),
            keys=tuple(layer.attention.prepare(memory.summary).keys for layer in layers),
            values=memory.values,
            gain=memory.lengths.to(memory.values.dtype).sqrt().reshape(-1, 1, 1),
            allowed=Mask.padding(memory.lengths).dense(1, num_keys),
            previous=(None,) * len(layers),
            time=0,
        )

    def fixed_state(self, state: State, *, steps: int) -> State | None:
        """The time as a tensor; None where attention has history, or there are not so many positions."""
        if self._has_history() or steps > self.config.max_positions:
            return None
        return state._replace(time=torch.zeros((), dtype=torch.long, device=state.values.device))

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word, from the last k − 1 inputs of each layer; the weights are the mean of all layers'."""
        logits, state, weights = self._write(tokens.unsqueeze(1), state, need_weights=True)
        assert weights is not None
        return Step(logits.squeeze(1), state, weights.squeeze(1))

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """All words at once; weights, if asked for, are the mean of all layers', as in `step`."""
        state = self.init_state(self.encode(source, lengths))
        logits, _, weights = self._write(inputs, state, need_weights=need_weights)
        return Translated(logits, weights)

    def _write(
        self, tokens: Int[Tensor, "n t"], state: State, *, need_weights: bool
    ) -> tuple[Float[Tensor, "n t v"], State, Float[Tensor, "n t k"] | None]:
        """Logits, the state after them, and the mean of the layers' weights if it is asked for."""
        embedded = self.dropout(self.target_place(self.target(tokens), offset=state.time))  # g
        x = self.target_in(embedded)
        caches, seen = [], []
        for layer, cache, keys, before in zip(self.decoder, state.caches, state.keys, state.previous, strict=True):
            assert isinstance(layer, DecoderBlock)
            window = torch.cat([cache, self.dropout(x)], 1)  # nothing later than the word itself
            hidden = layer.block(window)
            out = layer.attention(  # a_ij from z alone, c_i from z + e (2)
                (layer.to_query(hidden) + embedded) * HALF,  # d_i (1), before the residual
                Prepared(keys),
                state.values,
                mask=state.allowed,
                previous=before,
                step=state.time,
                need_weights=need_weights,
            )
            context = out.context * state.gain  # m·√(1/m) (3.4)
            attended = (layer.to_output(context) + hidden) * HALF
            x = (attended + x) * HALF
            caches.append(window[:, tokens.shape[1] :])
            seen.append(out.weights)
        logits: Tensor = self.to_logits(self.dropout(self.target_out(x)))
        time = state.time + tokens.shape[1]
        weights = [each for each in seen if each is not None]
        previous = tuple(each[:, -1] for each in weights) if weights and self._has_history() else (None,) * len(seen)
        state = state._replace(caches=tuple(caches), previous=previous, time=time)
        return logits, state, torch.stack(weights).mean(0) if weights else None

    def _has_history(self) -> bool:
        """Whether attention depends on the words before."""
        layer = self.decoder[0]
        assert isinstance(layer, DecoderBlock)
        score, align = layer.attention.score, layer.attention.align
        return bool({*getattr(score, "needs", ()), *getattr(align, "needs", ())} & {"previous", "step"})


def _linear(inputs: int, outputs: int, *, gain: float = 1.0, dropout: float = 0.0) -> nn.Linear:
    """A linear layer with its own length for each output (weight normalisation); N(0, gain·(1 − dropout)/inputs).

    The gain is 4 before a gate, which halves what goes through; `dropout` is that of the inputs (3.5).
    """
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=math.sqrt(gain * (1 - dropout) / inputs))
    nn.init.zeros_(layer.bias)
    weight_norm(layer, dim=0)
    return layer

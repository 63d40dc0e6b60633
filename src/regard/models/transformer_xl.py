"""Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context: Dai et al. 2019, arXiv 1901.02860.

A text is read segment by segment. Layer n attends to its own segment and to a memory: what it was given of the segments
before, without gradient (section 3.2). With segment τ and the cells m^{n−1} that were remembered,

    h̃^{n−1} = [SG(m^{n−1}); h^{n−1}]                                 the memory, then the segment
    q, k, v = h^{n−1} W_q,  h̃^{n−1} W_{k,E},  h̃^{n−1} W_v            only the segment asks
    A_ij = q_i·k_j + q_i·W_{k,R} R_{i−j} + u·k_j + v·W_{k,R} R_{i−j}      (a) to (d), section 3.3
    o = softmax(A / √d) v,   h = LayerNorm(h^{n−1} + W_o o),   h^n = LayerNorm(h + FFN(h))

R_{i−j} is the sinusoid of the distance, so a cell means the same wherever segments begin and end.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import ALiBi, Band, Mask, MultiHead, Position, Relative, Rotary
from regard.attention.position import type_of_products
from regard.base import ConfigError, check_settings
from regard.base.ranges import Count, Few, OneOf, Positive, Range, Share, Vocabulary, Width
from regard.data import PAD
from regard.models.language_model import LanguageModel
from regard.nn import Dropout, FeedForward, Residual, build_attention
from regard.nn.attentions import check_names
from regard.score import SCORES

Cells = Annotated[int, Range(least=0, most=100_000)]
ROTATED = ("dot", "scaled_dot", "cosine")  # scores that do not change when query and key are turned alike
XLPosition = Annotated[str, OneOf(("relative", "rotary", "alibi"))]


@dataclass(frozen=True)
class TransformerXLConfig:
    """Sizes of the paper's model of the Penn Treebank: 16 layers, 24 M parameters with 10,000 words."""

    vocabulary: Vocabulary = 0  # tokens; the data decide
    dim: Width = 380  # width of the model
    num_heads: Few = 10  # heads of attention
    head_dim: Width | None = None  # width of a head; None: dim / num_heads
    hidden_dim: Width = 700  # width inside the feed-forward layers
    layers: Few = 16  # of attention and feed-forward
    memory: Cells = 70  # cells of earlier segments that each layer remembers; 0: none
    same_length: bool = False  # each token sees `memory` cells before itself, whatever its place in the segment
    position: XLPosition = "relative"  # how distances are encoded; only relative has u and v
    shared_biases: bool = True  # all layers share u and v
    wide: bool = True  # the position term is float32; False: of the type of the query, for kernels of half precision
    score: str = "scaled_dot"  # name of the score, of SCORES; relative positions need scaled_dot
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.1  # share of the numbers that are set to zero in training
    attention_dropout: Share = 0.0  # share of the weights of attention that are set to zero in training
    embed_dropout: Share | None = None  # share of the numbers of the embedding, where it is not `dropout`
    output_dropout: Share | None = None  # share of the numbers of the top layer, where it is not `dropout`
    position_dropout: Share = 0.0  # share of the numbers of the distances R that are set to zero in training
    word_dropout: Share = 0.0  # share of the vocabulary that is set to zero in training, drawn for each text
    locked: bool = False  # dropout sets the same numbers to zero at all tokens of a segment
    pre_norm: bool = False  # whether norms come before the layers, not after
    tied: bool = True  # the output has the weights of the embedding
    cutoffs: tuple[Count, ...] = ()  # adaptive input and softmax: the word at which each cluster of rarer ones begins
    init_std: Positive = 0.02  # weights begin as N(0, init_std²), those of norms as 1
    div_value: Few = 1  # vectors of each cluster are narrower than those of the one before by this factor

    def __post_init__(self) -> None:
        check_settings(self, "model")


def transformer_xl_enwik8(vocabulary: int) -> TransformerXLConfig:
    """41.06 M parameters with 204 characters; the paper says 41 M."""
    return TransformerXLConfig(vocabulary, dim=512, num_heads=8, hidden_dim=2048, layers=12, memory=512, dropout=0.1)


def transformer_xl_wikitext103(vocabulary: int) -> TransformerXLConfig:
    """150.87 M parameters with 267,735 words; the paper says 151 M, with a bias for each rare word."""
    return TransformerXLConfig(
        vocabulary, dim=410, num_heads=10, hidden_dim=2100, layers=16, memory=150, dropout=0.1, shared_biases=False,
        cutoffs=(20_000, 40_000, 200_000),
    )  # fmt: skip


class Remembered(NamedTuple):
    """What goes from segment to segment. Its size is that of the memory, and never changes."""

    cells: Tensor  # [b n m d]: the input of each of n layers at the last m tokens, the oldest first
    written: Tensor  # [b m]: False where there was no token yet


class TransformerXLLayer(nn.Module):
    """Attention to a segment and the memory before it, then feed-forward."""

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        width = _head_dim(config)
        attention = build_attention(
            config.score,
            config.align,
            query_dim=width,
            key_dim=width,
            hidden_dim=width,
            dropout=config.attention_dropout,
        )
        self.inner = MultiHead(
            config.dim,
            num_heads=config.num_heads,
            head_dim=width,
            bias=False,
            attention=attention,
            position=_position(config),
        )
        self.feed = FeedForward(config.dim, config.hidden_dim, dropout=config.dropout, locked=config.locked)
        self.around_inner, self.around_feed = (
            Residual(config.dim, dropout=config.dropout, pre_norm=config.pre_norm, locked=config.locked)
            for _ in range(2)
        )

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b m d"] | None,
        mask: Mask,
        distances: Float[Tensor, "w r"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """h^n of a segment from h^{n−1}, with the cells m^{n−1} before it; all layers share a table R of distances."""
        earlier = None if memory is None else self.around_inner.enter(memory)
        inner = self.inner(self.around_inner.enter(x), earlier=earlier, mask=mask, distances=distances)
        x = self.around_inner.leave(x, inner.context)
        return self.around_feed.leave(x, self.feed(self.around_feed.enter(x)))


class TransformerXL(LanguageModel):
    """Reads segment after segment, and looks back at what each layer remembers of the segments before.

    How much is remembered is decided by the state: `initial_state(batch, memory=…)` makes one of any size, such as a
    longer one for evaluation. Reading a text in one call or in several gives the same as long as nothing is forgotten,
    that is while the text is not longer than the memory; with `same_length` it always does.
    """

    self_attention_layers = "layers.*.inner"
    shards: ClassVar[dict[str, tuple[str, ...]]] = {"layers.*": ()}  # whose weights a sharded training borrows
    zeroes_words = False  # each LayerNorm on top of zeros makes gradients 300 times as large

    def __init__(self, config: TransformerXLConfig) -> None:
        _check(config)
        super().__init__(
            vocabulary=config.vocabulary,
            embed_dim=config.dim,
            hidden_dim=config.dim,
            dropout=config.dropout,
            tied=config.tied,
            embed_dropout=config.embed_dropout,
            output_dropout=config.output_dropout,
            word_dropout=config.word_dropout,
            locked=config.locked,
            cutoffs=config.cutoffs,
            div_value=config.div_value,
        )
        self.config = config
        self.layers = nn.ModuleList(TransformerXLLayer(config) for _ in range(config.layers))
        self.position_dropout = Dropout(config.position_dropout, locked=True)
        self.last_norm = nn.LayerNorm(config.dim) if config.pre_norm else nn.Identity()
        self._begin()
        positions = [layer.inner.position for layer in self._layers()]
        for position in positions:
            if isinstance(position, Relative) and config.shared_biases:
                assert isinstance(positions[0], Relative)
                position.content, position.place = positions[0].content, positions[0].place

    @torch.no_grad()
    def _begin(self) -> None:
        """Draws all weights from N(0, init_std²), but for those of norms and biases, and sets the padding's to zero."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=self.config.init_std)
        if isinstance(self.words, nn.Embedding):
            self.words.weight[PAD] = 0.0

    def initial_state(self, batch: int, memory: int | None = None) -> Remembered:
        """An empty memory with places for `memory` cells in each layer; None: as many as in training."""
        memory = self.config.memory if memory is None else memory
        like = next(self.parameters())
        cells = like.new_zeros(batch, self.config.layers, memory, self.config.dim)
        return Remembered(cells, torch.zeros(batch, memory, dtype=torch.bool, device=like.device))

    def read(
        self, words: Float[Tensor, "b t d"], state: Remembered | None
    ) -> tuple[Float[Tensor, "b t d"], Remembered]:
        """h of the top layer at each word, and what is remembered after them."""
        empty = state is None
        state = self.initial_state(len(words)) if state is None else state
        size, length = state.cells.shape[2], words.shape[1]
        cells = state.cells.detach().to(words.dtype)  # SG(m)
        starts = None if empty or size == 0 else (~state.written).sum(-1)  # what was written comes last
        mask = Band(before=size if self.config.same_length else None, after=0, starts=starts)
        distances = self._distances(words, 0 if empty else size)
        hidden, inputs = words * math.sqrt(self.config.dim), []
        for number, layer in enumerate(self._layers()):
            inputs.append(hidden.detach())
            hidden = layer(hidden, None if empty or size == 0 else cells[:, number], mask, distances)
        recent = torch.stack([cell[:, max(0, length - size) :] for cell in inputs], 1)
        after = recent if length >= size else torch.cat([cells[:, :, length:], recent], 2)  # the last m of m + t
        written = F.pad(state.written, (0, length), value=True)[:, length:]
        return self.last_norm(hidden), Remembered(after.to(state.cells.dtype), written)

    def _distances(self, words: Float[Tensor, "b t d"], size: int) -> Float[Tensor, "w r"] | None:
        """R of all distances in a segment with `size` cells before it; None where the layers do not share one."""
        positions, length = [layer.inner.position for layer in self._layers()], words.shape[1]
        first, *others = positions
        if type(first) is not Relative or length == 0:
            return None
        if any(type(each) is not Relative or (each.dim, each.causal) != (first.dim, first.causal) for each in others):
            return None
        kind = type_of_products(words)
        table: Tensor = self.position_dropout(first.distances(length, size + length, dtype=kind, device=words.device))
        return table

    def _layers(self) -> list[TransformerXLLayer]:
        return [layer for layer in self.layers if isinstance(layer, TransformerXLLayer)]


def _head_dim(config: TransformerXLConfig) -> int:
    return config.dim // config.num_heads if config.head_dim is None else config.head_dim


def _position(config: TransformerXLConfig) -> Position:
    if config.position == "relative":
        return Relative(config.num_heads, _head_dim(config), dim=config.dim, causal=True, wide=config.wide)
    return Rotary() if config.position == "rotary" else ALiBi(config.num_heads)


def _check(config: TransformerXLConfig) -> None:
    check_names(config.score, config.align)
    score, align = SCORES[config.score], ALIGNS[config.align]
    if score.depends_on_place or {"previous", "step"} & {*score.needs, *align.needs}:
        raise ConfigError(
            "Transformer-XL reads all tokens of a segment at once, at any place",
            got=f"score={config.score}, align={config.align}",
            expected="a score and an alignment that look at neither places nor earlier weights",
            cure="use model.score=scaled_dot and model.align=softmax",
        )
    if config.position == "rotary" and config.score not in ROTATED:
        got, cure = f"model.score={config.score}", "set model.position=alibi, which goes with every score"
        raise ConfigError("rotary positions are distances in dot products alone", got=got, cure=cure)
    if config.position != "relative" and config.position_dropout > 0:
        got, cure = f"model.position={config.position}", "set model.position=relative, or model.position_dropout=0"
        raise ConfigError("model.position_dropout is of the distances R", got=got, cure=cure)
    if config.same_length and config.memory == 0:
        cure = "set model.same_length=false, or give it a memory"
        raise ConfigError("model.same_length without a memory: each token would see itself alone", cure=cure)

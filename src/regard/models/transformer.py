"""Attention Is All You Need: Vaswani et al. 2017, arXiv 1706.03762. Section and equation numbers are the paper's."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import (
    POSITIONS,
    ALiBi,
    Attention,
    Cache,
    FixedCache,
    Learned,
    Mask,
    Position,
    Relative,
    Rotary,
    Sinusoidal,
)
from regard.base import ConfigError, check_settings
from regard.base.ranges import Count, Few, OneOf, Share, Vocabulary, Width
from regard.decode import Shared, Step
from regard.kernels import small
from regard.kernels.serving import is_bare, serves
from regard.models.packed_transformer import PackedTransformer, reason_against
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import DecoderLayer, Dropout, EncoderLayer, build_attention
from regard.nn.attentions import check_names
from regard.score import SCORES

Tie = Annotated[str, OneOf(("all", "output", "none"))]


@dataclass(frozen=True)
class TransformerConfig:
    """The base model (table 3). `score` and `align` serve every attention, except that self-attention keeps scaled dot
    and softmax where they have history (`monotonic`, `location_aware`) or a table of positions (`location`).
    """

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    dim: Width = 512  # width of the model
    hidden_dim: Width = 2048  # width inside the feed-forward layers
    num_heads: Few = 8  # heads of attention
    encoder_layers: Few = 6  # layers of the encoder
    decoder_layers: Few = 6  # layers of the decoder
    dropout: Share = 0.1  # share of the numbers that are set to zero in training
    attention_dropout: Share = 0.0  # share of the weights of attention that are set to zero in training
    pre_norm: bool = False  # whether norms come before the layers, not after
    position: Annotated[str, OneOf(POSITIONS)] = "sinusoidal"  # how places are encoded, of POSITIONS
    max_positions: Count = 1024  # for position="learned"
    tie: Tie = "all"  # "all": one matrix for both embeddings and the softmax (3.4); "output": target and softmax
    score: str = "scaled_dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS

    def __post_init__(self) -> None:
        check_settings(self, "model")


def transformer_base(vocabulary: int) -> TransformerConfig:
    """63.08 M parameters with a joint vocabulary of 37,000; the paper says 65 M."""
    return TransformerConfig(vocabulary, vocabulary)


def transformer_big(vocabulary: int) -> TransformerConfig:
    """214.25 M parameters with a joint vocabulary of 37,000, where the paper says 213 M; English–German's dropout."""
    return TransformerConfig(vocabulary, vocabulary, dim=1024, hidden_dim=4096, num_heads=16, dropout=0.3)


class State(NamedTuple):
    """What goes from word to word."""

    caches: tuple[Cache | FixedCache, ...]  # of self-attention, one for each layer
    memories: Shared  # keys and values of the source, a `MultiHead` memory for each layer, projected once
    allowed: Shared  # [a 1 k], True = may attend
    previous: tuple[Tensor | None, ...]  # where there is history: weights of the word before [n h k], for each layer


class Transformer(Translator):
    """Encoder and decoder of attention and feed-forward layers alone."""

    source_layers = "decoder.*.cross"
    self_attention_layers = "encoder.*.inner"
    target_self_layers = "decoder.*.inner"
    can_choose_head = True
    shards: ClassVar[dict[str, tuple[str, ...]]] = {"encoder.*": (), "decoder.*": (), "decoder.*.cross": ("prepare",)}

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        _check(config)
        self.source = nn.Embedding(config.source_vocabulary, config.dim, padding_idx=0)
        self.target = self.source
        if config.tie != "all":
            self.target = nn.Embedding(config.target_vocabulary, config.dim, padding_idx=0)
        self.to_logits = nn.Linear(config.dim, config.target_vocabulary, bias=False)
        for embedding in dict.fromkeys((self.source, self.target)):  # in this order: a set has that of addresses
            nn.init.normal_(embedding.weight, std=config.dim**-0.5)
            nn.init.zeros_(embedding.weight[0])
        if config.tie == "none":
            nn.init.xavier_uniform_(self.to_logits.weight)
        else:
            self.to_logits.weight = self.target.weight
        self.place = self._input_position()
        common: dict[str, Any] = {
            "num_heads": config.num_heads,
            "hidden_dim": config.hidden_dim,
            "dropout": config.dropout,
            "pre_norm": config.pre_norm,
        }
        self.encoder = nn.ModuleList(
            EncoderLayer(config.dim, **common, attention=self._inner(), position=self._head_position())
            for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                config.dim,
                **common,
                attention=self._inner(),
                cross_attention=self._attention(config.score, config.align),
                position=self._head_position(),
            )
            for _ in range(config.decoder_layers)
        )
        norms = (nn.LayerNorm(config.dim) if config.pre_norm else nn.Identity() for _ in range(2))
        self.encoder_norm, self.decoder_norm = norms
        self.dropout = Dropout(config.dropout)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """The top of the encoder, [b k dim]."""
        padding = Mask.padding(lengths)
        x = self._embed(self.source, source, 0)
        for layer in self.encoder:
            x = layer(x, padding)
        x = small.normed(x, self.encoder_norm)
        return EncodedSource(x, lengths, x.new_zeros(x.shape[0], 0))

    def init_state(self, memory: EncodedSource) -> State:
        """Empty caches, and the source projected once for every layer."""
        layers = [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
        memories = tuple(layer.cross.prepare(memory.values) for layer in layers)
        empty = tuple(Cache() for _ in layers)
        allowed = Mask.padding(memory.lengths).dense(1, memory.values.shape[1])
        return State(empty, Shared(memories), Shared(allowed), (None,) * len(layers))

    def fixed_state(self, state: State, *, steps: int) -> State | None:
        """Caches with room for `steps` steps; None where attention has history, or there are not so many positions."""
        if self._has_history() or (self.config.position == "learned" and steps > self.config.max_positions):
            return None
        layers = [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
        like: Tensor = state.memories.value[0].values
        length = torch.zeros((), dtype=torch.long, device=like.device)
        return state._replace(
            caches=tuple(FixedCache.empty(layer.inner, len(like), steps, length, like=like) for layer in layers)
        )

    def packed(self) -> PackedTransformer | str:
        """The decoder with its weights packed; or the reason where positions, scores or alignments are others."""
        own = type(self).step is Transformer.step and type(self).init_state is Transformer.init_state
        reason = reason_against(self) if own else f"{type(self).__name__}, which has steps of its own"
        return reason or PackedTransformer(self)

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word; the weights are those of `best_head`, or else of the last layer, mean over its heads.

        A trace has all layers and heads.
        """
        first = state.caches[0]
        room = 0 if first.keys is None else first.keys.shape[2]
        x = self._embed(self.target, tokens.unsqueeze(1), first.length, room=room)
        memories, allowed, history = state.memories.value, state.allowed.value, self._has_history()
        if history and len(allowed) < len(x):  # every prefix has looked elsewhere: a row of the memory for each
            rows = torch.arange(len(allowed), device=x.device).repeat_interleave(len(x) // len(allowed))
            memories, allowed = [memory.reorder(rows) for memory in memories], allowed[rows]
        caches, previous = [], []
        stack = zip(self.decoder, state.caches, memories, state.previous, strict=True)
        asked, weights = self._asked_layer(), None
        for number, (layer, cache, memory, before) in enumerate(stack):
            seen = history or number == asked
            x, cache, out = layer(x, memory, mask=allowed, cache=cache, previous=before, need_weights=seen)
            caches.append(cache)
            previous.append(out.weights[..., -1, :] if history else None)
            if number == asked:
                weights = self._of_heads(out.weights).flatten(0, 1)  # [a h w k] → [n k]
        state = state._replace(caches=tuple(caches), previous=tuple(previous))
        return Step(self.to_logits(self.decoder_norm(x)).squeeze(1), state, weights)

    def _has_history(self) -> bool:
        """Whether attention to the source depends on the words before, so that each prefix needs a row of its own."""
        layer = self.decoder[0]
        assert isinstance(layer, DecoderLayer)
        attention = layer.cross.attention
        needs = {*getattr(attention.score, "needs", ()), *getattr(attention.align, "needs", ())}
        return bool(needs & {"previous", "step"})

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """All words at once; weights, if asked for, are those that `step` gives."""
        state = self.init_state(self.encode(source, lengths))
        allowed = Mask.padding(lengths)  # as a rule, which kernels take without a tensor
        x = self._embed(self.target, inputs, 0)
        asked, weights = self._asked_layer() if need_weights else -1, None
        for number, (layer, memory) in enumerate(zip(self.decoder, state.memories.value, strict=True)):
            x, _, out = layer(x, memory, mask=allowed, need_weights=number == asked)
            if number == asked:
                weights = self._of_heads(out.weights)
        return Translated(self.to_logits(small.normed(x, self.decoder_norm)), weights)

    @property
    def weights_from(self) -> str:
        """Which layer and head, or heads, the weights of `step` are of."""
        if self.best_head is None:
            return f"mean of the {self.config.num_heads} heads of decoder.{len(self.decoder) - 1}.cross"
        return "{}, head {}: the best aligned".format(*self.best_head)

    def _asked_layer(self) -> int:
        """The number of the decoder layer whose weights are given."""
        return len(self.decoder) - 1 if self.best_head is None else int(self.best_head[0].split(".")[1])

    def _of_heads(self, weights: Float[Tensor, "b h t k"]) -> Float[Tensor, "b t k"]:
        """Those of one head, or the mean of all."""
        return weights.mean(1) if self.best_head is None else weights[:, self.best_head[1]]

    def _embed(
        self, table: nn.Embedding, tokens: Int[Tensor, "b t"], offset: int | Tensor, *, room: int = 0
    ) -> Float[Tensor, "b t d"]:
        """Words with their places from `offset` on; one that is a number of the device is below `room`."""
        if serves("embedding", table.weight):
            made = None
            if isinstance(offset, Tensor):
                made = self._embed_in_one(table, tokens, room, offset) if not offset.ndim and room else None
            elif offset == 0:
                made = self._embed_in_one(table, tokens, tokens.shape[1], None)
            if made is not None:
                return made
        words = table(tokens) * math.sqrt(self.config.dim)  # 3.4
        placed: Tensor = self.dropout(words if self.place is None else self.place(words, offset=offset))
        return placed

    def _embed_in_one(
        self, table: nn.Embedding, tokens: Int[Tensor, "b t"], room: int, first: Tensor | None
    ) -> Float[Tensor, "b t d"] | None:
        """The same by one kernel, from `first` or from the start; None where positions or layers are others."""
        place, weight = self.place, table.weight
        if not self.dropout.is_unwatched() or not (place is None or is_bare(place, Sinusoidal)):
            return None
        places = None
        if isinstance(place, Sinusoidal):
            places = place.table(room, weight.dtype, weight.device)
        scale, chance, locked = math.sqrt(self.config.dim), self.dropout.chance(), self.dropout.locked
        return small.embedding(table, tokens, scale=scale, places=places, first=first, dropout=chance, locked=locked)

    def _inner(self) -> Attention:
        score, align = self.config.score, self.config.align
        kind = SCORES[score]
        plain = kind.depends_on_place or kind.needs or "previous" in ALIGNS[align].needs
        return self._attention("scaled_dot", "softmax") if plain else self._attention(score, align)

    def _attention(self, score: str, align: str) -> Attention:
        width = self.config.dim // self.config.num_heads
        return build_attention(
            score, align, query_dim=width, key_dim=width, hidden_dim=width, dropout=self.config.attention_dropout
        )

    def _input_position(self) -> Sinusoidal | Learned | None:
        if self.config.position == "sinusoidal":
            return Sinusoidal(self.config.dim)  # 3.5
        return Learned(self.config.max_positions, self.config.dim) if self.config.position == "learned" else None

    def _head_position(self) -> Position | None:
        heads, width = self.config.num_heads, self.config.dim // self.config.num_heads
        if self.config.position == "rotary":
            return Rotary()
        if self.config.position == "alibi":
            return ALiBi(heads)
        return Relative(heads, width) if self.config.position == "relative" else None


def _check(config: TransformerConfig) -> None:
    check_names(config.score, config.align)
    if config.tie == "all" and config.source_vocabulary != config.target_vocabulary:
        raise ConfigError(
            "tie='all' needs one vocabulary",
            got=f"source {config.source_vocabulary}, target {config.target_vocabulary}",
            expected="equal sizes",
            cure="train joint sub-words, or set tie='output'",
        )

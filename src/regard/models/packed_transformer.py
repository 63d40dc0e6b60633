"""The decoder of `transformer.py` for search on a CPU: a step of few and large operations, with nothing moved.

Keys and values of all prefixes of a sentence stand side by side in one pool and stay where they are. A prefix does not
own a row of them: it knows which ones are its ancestors, and `seen` is −∞ for all others. So a beam that branches
copies no cache, and the w prefixes of a sentence are w queries of one product:

    scores [a·h w w·t] = queries [a·h w d] · pool [a·h d w·t]

One product makes queries, keys and values of all heads; another one makes those of the source for all layers at once.
"""

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.align import Softmax
from regard.attention import Attention, Learned, MultiHead, Sinusoidal
from regard.decode import Shared, Step
from regard.decode.protocol import InPlace
from regard.models.translator import EncodedSource
from regard.nn import DecoderLayer, FeedForward, Residual
from regard.score import ScaledDot

if TYPE_CHECKING:
    from regard.models.transformer import Transformer

Norm = tuple[tuple[int, ...], Tensor, Tensor, float]
Weights = tuple[Tensor, Tensor | None]
ROOM = 8  # steps by which a pool grows


class Pool(InPlace):
    """Keys and values of every layer, for sentences in the order in which they stand now.

    Keys are [l a h d places], values [l a h places d]: so both products read them as they are.
    """

    def __init__(self, source_keys: Float[Tensor, "l a h d k"], source_values: Float[Tensor, "l a h k d"]) -> None:
        self.source_keys, self.source_values = source_keys, source_values
        self.sentences, self.filled = source_keys.shape[1], 0
        layers, sentences, heads, width = source_keys.shape[:4]
        self.keys = source_keys.new_empty(layers, sentences, heads, width, 0)
        self.values = source_keys.new_empty(layers, sentences, heads, 0, width)

    def make_room(self, prefixes: int) -> None:
        """Room for one more step of so many prefixes of each sentence."""
        if self.filled + prefixes <= self.keys.shape[-1]:
            return
        old, places = (self.keys, self.values), self.filled + ROOM * prefixes
        layers, _, heads, width, _ = self.keys.shape
        self.keys = self.keys.new_empty(layers, self.sentences, heads, width, places)
        self.values = self.values.new_empty(layers, self.sentences, heads, places, width)
        self.keys[..., : self.filled] = old[0][:, : self.sentences, ..., : self.filled]
        self.values[..., : self.filled, :] = old[1][:, : self.sentences, :, : self.filled]

    def layers(self, prefixes: int) -> Iterator["Places"]:
        """The places of each layer, those of a step of so many prefixes included."""
        after = self.filled + prefixes
        keys, values, source_keys, source_values = (
            part[:, : self.sentences] for part in (self.keys, self.values, self.source_keys, self.source_values)
        )
        parts = (
            keys[..., self.filled : after], values[..., self.filled : after, :],
            keys[..., :after].flatten(1, 2), values[..., :after, :].flatten(1, 2),
            source_keys.flatten(1, 2), source_values.flatten(1, 2),
        )  # fmt: skip
        return itertools.starmap(Places, zip(*(part.unbind(0) for part in parts), strict=True))

    def keep(self, sentences: Int[Tensor, " m"]) -> "Pool":
        """What belongs to these sentences, in this order. Where the last ones fill gaps, only they are moved."""
        count = len(sentences)
        moved = (sentences != torch.arange(count, device=sentences.device)).nonzero().squeeze(1)
        if len(moved):
            origin = sentences[moved]
            parts = (
                self.source_keys, self.source_values, self.keys[..., : self.filled], self.values[..., : self.filled, :]
            )  # fmt: skip
            for part in parts:  # what is read is copied before anything is written
                part[:, moved] = part[:, origin]
        self.sentences = count
        return self


class Places(NamedTuple):
    """Where a layer writes and reads: views of a pool."""

    new_keys: Tensor  # [a h d w]
    new_values: Tensor  # [a h w d]
    keys: Tensor  # [a·h d places]
    values: Tensor  # [a·h places d]
    source_keys: Tensor  # [a·h d k]
    source_values: Tensor  # [a·h k d]


class PackedState(NamedTuple):
    """What goes from word to word."""

    pool: Pool
    time: int
    seen: Tensor | None  # [n places], 0 for the ancestors of a prefix, else −∞; None where all are ancestors
    padding: Shared  # [a k], 0 for words of the source, else −∞; None where there is no padding
    full: Shared  # [a], 0 for a sentence of no words, else 1; None where there is no such sentence


class _Layer:
    """The weights of a layer, as views where that is possible."""

    def __init__(self, layer: DecoderLayer) -> None:
        inner, cross, feed = layer.inner, layer.cross, layer.feed
        self.norms = tuple(
            (around.norm.normalized_shape, around.norm.weight, around.norm.bias, around.norm.eps)
            for around in (layer.around_inner, layer.around_cross, layer.around_feed)
        )
        scale = (inner.to_query.out_features // inner.num_heads) ** -0.5
        projections = [inner.to_query, inner.to_keys, inner.to_values]
        weights, biases = [each.weight for each in projections], [each.bias for each in projections]
        self.inner = torch.cat([weights[0] * scale, *weights[1:]]), torch.cat([biases[0] * scale, *biases[1:]])
        self.query = cross.to_query.weight * scale, cross.to_query.bias * scale
        self.inner_output = inner.to_output.weight, inner.to_output.bias
        self.cross_output = cross.to_output.weight, cross.to_output.bias
        self.widen = feed.widen.weight, feed.widen.bias
        self.narrow = feed.narrow.weight, feed.narrow.bias


class PackedTransformer:
    """A Transformer that encodes as it is and decodes by packed weights: it is read once, as its weights are now."""

    def __init__(self, model: "Transformer") -> None:
        self.model = model
        layers = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.heads, self.pre_norm = layers[0].cross.num_heads, layers[0].around_feed.pre_norm
        self.layers = [_Layer(layer) for layer in layers]
        sides = [projection for layer in layers for projection in (layer.cross.to_keys, layer.cross.to_values)]
        self.source = torch.cat([side.weight for side in sides]), torch.cat([side.bias for side in sides])
        self.width = layers[0].cross.to_query.out_features // self.heads
        self.to_logits: Weights = (model.to_logits.weight, None)
        self.asked = model._asked_layer()
        self.places = model.target.weight.new_empty(0, model.config.dim)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """The encoded source, by the encoder of the model as it is."""
        return self.model.encode(source, lengths)

    def init_state(self, memory: EncodedSource) -> PackedState:
        """An empty pool, with the source projected once for all layers."""
        sentences, places = memory.values.shape[:2]
        both = F.linear(memory.values, *self.source).view(sentences, places, len(self.layers), 2, self.heads, -1)
        keys = both[..., 0, :, :].permute(2, 0, 3, 4, 1).contiguous()  # [b k l h d] → [l b h d k]
        values = both[..., 1, :, :].permute(2, 0, 3, 1, 4).contiguous()
        allowed = torch.arange(places, device=keys.device) < memory.lengths.unsqueeze(1)
        full = None
        if (memory.lengths < 1).any():
            full = (memory.lengths > 0).to(values.dtype)
            values.mul_(full[:, None, None, None])
            allowed = allowed | (full == 0).unsqueeze(1)  # so that the softmax is one of numbers
        padding = None
        if not allowed.all():
            padding = torch.zeros_like(allowed, dtype=keys.dtype).masked_fill(~allowed, -math.inf)
        return PackedState(Pool(keys, values), 0, None, Shared(padding), Shared(full))

    def step(self, tokens: Int[Tensor, " n"], state: PackedState) -> Step:
        """One word; the weights are those that the step of the model gives."""
        pool, sentences = state.pool, state.pool.sentences
        prefixes = len(tokens) // sentences
        shape = (sentences, prefixes, -1, self.heads, self.width)
        seen = self._seen(state, len(tokens), prefixes)
        added = None if seen is None else seen.view(sentences, 1, prefixes, -1)
        padding = None if state.padding.value is None else state.padding.value[:, None, None, :]
        x, weights = self._embed(tokens, state.time), None
        pool.make_room(prefixes)
        for number, (layer, places) in enumerate(zip(self.layers, pool.layers(prefixes), strict=True)):
            before_inner, before_cross, before_feed = layer.norms
            query, keys, values = self._product(self._enter(x, before_inner), layer.inner).view(shape).unbind(2)
            places.new_keys.copy_(keys.permute(0, 2, 3, 1))
            places.new_values.copy_(values.transpose(1, 2))
            mixed, _ = self._attend(query, places.keys, places.values, added)
            x = self._leave(x, mixed, layer.inner_output, before_inner)

            query = self._product(self._enter(x, before_cross), layer.query).view(shape).squeeze(2)
            mixed, looks = self._attend(query, places.source_keys, places.source_values, padding)
            if number == self.asked:
                weights = self.model._of_heads(looks).flatten(0, 1)  # [a h w k] → [n k]
            x = self._leave(x, mixed, layer.cross_output, before_cross)

            hidden = self._product(self._enter(x, before_feed), layer.widen).relu_()
            x = self._leave(x, hidden, layer.narrow, before_feed)
        pool.filled += prefixes
        if weights is not None and state.full.value is not None:
            weights = weights * state.full.value.repeat_interleave(prefixes).unsqueeze(1)
        after = state._replace(time=state.time + 1, seen=seen)
        return Step(self._product(self.model.decoder_norm(x), self.to_logits), after, weights)

    def _embed(self, tokens: Int[Tensor, " n"], time: int) -> Float[Tensor, "n e"]:
        """The vectors of words at this place; places are made for several steps at once."""
        dim = self.model.config.dim
        if time >= len(self.places):
            more = self.places.new_zeros(1, 4 * ROOM if type(self.model.place) is Sinusoidal else 1, dim)
            placed = more if self.model.place is None else self.model.place(more, offset=len(self.places))
            self.places = torch.cat([self.places, placed[0]])
        return F.embedding(tokens, self.model.target.weight).mul_(math.sqrt(dim)).add_(self.places[time])

    def _product(self, x: Float[Tensor, "n d"], weights: Weights) -> Float[Tensor, "n e"]:
        return F.linear(x, *weights)

    def _added(self, x: Float[Tensor, "n e"], y: Float[Tensor, "n d"], weights: Weights) -> Float[Tensor, "n e"]:
        weight, bias = weights
        assert bias is not None
        return torch.addmm(x, y, weight.mT).add_(bias)

    def _enter(self, x: Tensor, norm: Norm) -> Tensor:
        """The input of a sub-layer: normalised if the norms come before the layers."""
        return torch.layer_norm(x, *norm) if self.pre_norm else x

    def _leave(self, x: Tensor, y: Tensor, output: Weights, norm: Norm) -> Tensor:
        """x with what the sub-layer made of it, y, after its last projection."""
        added = self._added(x, y, output)
        return added if self.pre_norm else torch.layer_norm(added, *norm)

    def _attend(
        self,
        query: Float[Tensor, "a w h d"],
        keys: Float[Tensor, "a*h d k"],
        values: Float[Tensor, "a*h k d"],
        added: Float[Tensor, "a 1 _ k"] | None,
    ) -> tuple[Float[Tensor, "n e"], Float[Tensor, "a h w k"]]:
        """The contexts of all heads side by side, and the weights."""
        sentences, prefixes, heads, width = query.shape
        scores = torch.bmm(query.transpose(1, 2).reshape(-1, prefixes, width), keys)
        if added is not None:
            scores.view(sentences, heads, prefixes, -1).add_(added)
        weights = scores.softmax(-1)
        mixed = torch.bmm(weights, values).view(sentences, heads, prefixes, width).transpose(1, 2)
        return mixed.reshape(-1, heads * width), weights.view(sentences, heads, prefixes, -1)

    def _seen(self, state: PackedState, rows: int, prefixes: int) -> Tensor | None:
        """Which places a prefix sees, those of this step included: its own, and those of its ancestors."""
        if prefixes == 1 and state.seen is None:
            return None
        like, filled = state.pool.keys, state.pool.filled
        before = like.new_zeros(rows, filled) if state.seen is None else state.seen
        own = like.new_full((prefixes, prefixes), -math.inf).fill_diagonal_(0.0)
        return torch.cat([before, own.repeat(state.pool.sentences, 1)], 1)


def reason_against(model: "Transformer") -> str:
    """Why a Transformer cannot be packed; empty if it can."""
    if type(model.place) not in (Sinusoidal, Learned):
        return f"position={model.config.position}, which is not added to the input"
    if type(model.to_logits) is not nn.Linear or type(model.target) is not nn.Embedding:
        return "embeddings or logits that are not plain ones"
    for layer in model.decoder:
        if type(layer) is not DecoderLayer or type(layer.feed) is not FeedForward:
            return f"a layer that is not one of this Transformer: {type(layer).__name__}"
        for part in (layer.inner, layer.cross):
            if reason := _reason_against_part(part):
                return reason
        if any(type(each) is not nn.Linear for each in (layer.feed.widen, layer.feed.narrow)):
            return "a feed-forward layer whose products are not plain ones"
        around = (layer.around_inner, layer.around_cross, layer.around_feed)
        if any(type(each) is not Residual or type(each.norm) is not nn.LayerNorm for each in around):
            return "a norm that is not a plain one"
    return ""


def _reason_against_part(part: nn.Module) -> str:
    if type(part) is not MultiHead or type(part.attention) is not Attention or part.position is not None:
        return f"an attention that is not plain multi-head attention: {type(part).__name__}"
    attention = part.attention
    if type(attention.score) is not ScaledDot or type(attention.align) is not Softmax:
        return f"score={type(attention.score).__name__}, align={type(attention.align).__name__}"
    if attention.align.temperature != 1.0 or attention.impl != "auto" or part.num_key_heads != part.num_heads:
        return "a temperature, a named implementation or shared key heads"
    linear = (part.to_query, part.to_keys, part.to_values, part.to_output)
    if any(type(each) is not nn.Linear or each.bias is None for each in linear):
        return "a projection that is not a plain one with a bias"
    return ""

"""Typical mistakes: each gives our error with what, got, expected, cure. No shape hook here, or it would speak first."""

import math
import re
from collections.abc import Callable

import pytest
import torch
from examples_of import SCORE_EXAMPLES

from regard import Attention, Mask, MultiHead, attend, lookup, trace
from regard.align import (
    Entmax,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    Sigmoid,
    Softmax,
    TopK,
    entmax,
    softmax,
)
from regard.attention import (
    ALiBi,
    Cache,
    EdgeAttention,
    Learned,
    Relative,
    Rotary,
    Sinusoidal,
    Trace,
    attend_edges,
    relative_shift,
    sinusoid,
)
from regard.base import ConfigError, ImplementationUnavailable, MaskError, RegardError, ShapeError
from regard.score import (
    Additive,
    Concat,
    Concatenation,
    Cosine,
    Distance,
    Dot,
    Edges,
    General,
    GraphAdditive,
    Location,
    LocationAware,
    Projected,
    ScaledDot,
)

pytestmark = pytest.mark.bare

X = torch.zeros(2, 3, 8)  # [b q d]
Y = torch.zeros(2, 5, 8)  # [b k d]
NARROW = torch.zeros(2, 5, 6)
layer = MultiHead(8, num_heads=2)


def traced(x: torch.Tensor) -> None:
    with trace():
        attend(x, x, x)


PAIR = torch.tensor([[0, 1], [1, 0]])
EDGES = Edges.of(PAIR, 3)


def traced_edges(x: torch.Tensor) -> None:
    with trace():
        attend_edges(x, x, x, Edges.of(PAIR.to("meta"), 3))


TABLE: dict[str, tuple[Callable[[], object], type[RegardError], str]] = {
    # widths
    "dot width": (lambda: attend(X, NARROW, NARROW, score=Dot()), ShapeError,
        "Dot compares query and keys of one width: got query 8 and keys 6; expected the same last axis."
        " Try: use General(8, 6), or project one of them."),
    "scaled dot width": (lambda: attend(X, NARROW, NARROW), ShapeError, "ScaledDot compares query and keys of one width"),
    "scaled dot width, fused": (lambda: attend(X, NARROW, NARROW, need_weights=False), ShapeError,
        "ScaledDot compares query and keys of one width"),
    "cosine width": (lambda: attend(X, NARROW, NARROW, score=Cosine()), ShapeError, "got query 8 and keys 6"),
    "distance width": (lambda: attend(X, NARROW, NARROW, score=Distance()), ShapeError, "got query 8 and keys 6"),
    "general keys": (lambda: attend(X, Y, Y, score=General(8, 6)), ShapeError,
        "keys has the wrong width: got 8; expected 6. Try: give the key width second: General(query_dim, key_dim)."),
    "general query": (lambda: attend(X, NARROW, NARROW, score=General(7, 6)), ShapeError,
        "query has the wrong width: got 8; expected 7"),
    "additive keys": (lambda: attend(X, NARROW, NARROW, score=Additive(8, 8, 4)), ShapeError,
        "keys has the wrong width: got 6; expected 8"),
    "additive query": (lambda: attend(X, Y, Y, score=Additive(6, 8, 4)), ShapeError,
        "query has the wrong width: got 8; expected 6"),
    "concat keys": (lambda: attend(X, NARROW, NARROW, score=Concat(8, 8, 4)), ShapeError, "keys has the wrong width: got 6"),
    "concat query": (lambda: attend(X, Y, Y, score=Concat(6, 8, 4)), ShapeError, "query has the wrong width: got 8"),
    "projected keys": (lambda: attend(X, NARROW, NARROW, score=Projected(Dot(), 8, 8, 4)), ShapeError, "keys has the wrong width: got 6"),
    "projected query": (lambda: attend(X, Y, Y, score=Projected(Dot(), 6, 8, 4)), ShapeError, "query has the wrong width: got 8"),
    "location query": (lambda: attend(X, Y, Y, score=Location(6, 9)), ShapeError, "query has the wrong width: got 8"),
    "local-p query": (lambda: attend(X, Y, Y, align=LocalPredictive(6)), ShapeError, "query has the wrong width: got 8"),
    "multihead query": (lambda: layer(torch.zeros(2, 3, 7)), ShapeError,
        "query of MultiHead: got [2, 3, 7]; expected [..., query, 8]"),
    "multihead keys": (lambda: layer(X, NARROW), ShapeError, "keys of MultiHead: got [2, 5, 6]; expected [..., keys, 8]"),
    "multihead values": (lambda: layer(X, Y, NARROW), ShapeError, "values of MultiHead: got [2, 5, 6]"),
    # types, devices, numbers beyond 64 bits
    "float64 keys of a float32 layer": (lambda: attend(X, Y.double(), Y, score=General(8, 8)), ConfigError,
        "keys has the wrong type: got torch.float64; expected torch.float32, that of the layer's weights."
        " Try: write keys.to(torch.float32) or layer.to(torch.float64)."),
    "half query of a float32 layer": (lambda: attend(X.half(), Y, Y, score=Additive(8, 8, 4)), ConfigError, "query has the wrong type: got torch.float16; expected torch.float32"),
    "float64 to heads": (lambda: layer(X.double()), ConfigError, "query has the wrong type: got torch.float64; expected torch.float32"),
    "float64 under autocast": (lambda: torch.autocast("cpu", torch.bfloat16)(lambda: layer(X.double()))(), ConfigError, "query has the wrong type: got torch.float64"),
    "meta keys": (lambda: attend(X, Y.to("meta"), Y), ShapeError, "keys and query are on different devices: got meta and cpu; expected one. Try: move it: keys.to(query.device)."),
    "meta bias": (lambda: attend(X, Y, Y, bias=torch.zeros(3, 5, device="meta")), ShapeError, "bias and query are on different devices: got meta and cpu"),
    "complex bias": (lambda: attend(X, Y, Y, bias=torch.zeros(3, 5, dtype=torch.complex64)), ShapeError, "a bias must hold real numbers: got torch.complex64. Try: pass bias.real."),
    "meta trace": (lambda: traced(X.to("meta")), RegardError, "a trace of meta tensors: got tensors without numbers. Try: trace a call with real ones."),
    "huge step": (lambda: attend(X, Y, Y, align=LocalMonotonic(1), step=10**20), ConfigError, "step: got 100000000000000000000; expected the time of the first query"),
    "huge segment": (lambda: Mask.segment([10**20]), MaskError, "segment numbers: got [100000000000000000000]; expected whole numbers"),
    "half a block": (lambda: Mask.block(1.5), ConfigError, "block size: got 1.5; expected 1 or more"),
    "endless temperature": (lambda: Softmax(math.inf), ConfigError, "Softmax temperature: got inf; expected more than 0"),
    # lengths and axes
    "keys and values": (lambda: attend(X, Y, Y[:, :4]), ShapeError,
        "keys and values differ in length: got 5 and 4; expected one value for each key"),
    "vector": (lambda: attend(X[0, 0], Y, Y), ShapeError,
        "query needs an axis for its items and one for their width: got [8]; expected [..., items, width]."
        " Try: write query.unsqueeze(-2) to make one item of a vector."),
    "list": (lambda: attend([[1.0]], Y, Y), ShapeError, "query must be a tensor: got list"),  # type: ignore[arg-type]
    "batches": (lambda: attend(X, Y[:1].expand(3, -1, -1), Y, need_weights=False), ShapeError,
        "leading axes of query, keys and values do not fit: got [2], [3], [2]"),
    "state without its axis": (lambda: attend(torch.zeros(2, 8), Y, Y), ShapeError,
        "the query has fewer axes than keys or values: got query [2, 8], keys [2, 5, 8], values [2, 5, 8]; expected as many."
        " Try: write query.unsqueeze(-2) for one query of each state"),
    "whole numbers": (lambda: attend(X.long(), Y, Y), ShapeError, "query must hold real numbers: got torch.int64. Try: convert it: query.float()."),
    "boolean bias": (lambda: attend(X, Y, Y, bias=torch.ones(3, 5, dtype=torch.bool)), MaskError, "a bias is added to the scores: got torch.bool. Try: pass it as mask=."),
    "swapped parts": (lambda: Attention(Softmax(), ScaledDot()), ConfigError, "this is no score: got Softmax. Try: write Attention(score=…, align=…)."),
    "score as align": (lambda: attend(X, Y, Y, align=Dot()), ConfigError, "this is no align: got Dot"),
    "tuple from an alignment": (lambda: attend(X, Y, Y, align=lambda scores, mask: (scores, scores)), ShapeError, "returned no weight for each pair: got tuple"),
    "list to heads": (lambda: layer([1.0]), ShapeError, "query of MultiHead: got list; expected a tensor"),
    "cache flag": (lambda: layer(X, cache=True), ConfigError, "cache: got bool; expected Cache() at first, then out.cache"),
    "from another layer": (lambda: MultiHead.from_torch(torch.nn.Linear(8, 8)), ConfigError, "from_torch: got Linear"),
    "time first": (lambda: MultiHead.from_torch(torch.nn.MultiheadAttention(8, 2)), ConfigError, "this layer takes time first, MultiHead takes batch first: got batch_first=False. Try: set other.batch_first = True"),
    "batches, reference": (lambda: attend(X, Y[:1].expand(3, -1, -1), Y), ShapeError,
        "leading axes of query, keys and values do not fit: got [2], [3], [2]"),
    "user score": (lambda: attend(X, Y, Y, score=lambda query, keys: query @ query.mT), ShapeError,
        "<lambda> returned no score for each pair: got [2, 3, 3]; expected [..., 3, 5]"),
    "user alignment": (lambda: attend(X, Y, Y, align=lambda scores, mask: scores[..., :2]), ShapeError,
        "<lambda> returned no weight for each pair: got [2, 3, 2]; expected [..., 3, 5]"),
    "previous": (lambda: attend(X[:, :1], Y, Y, score=LocationAware(8, 8, 4), previous=torch.zeros(2, 4)), ShapeError,
        "the previous weights do not fit the keys: got [2, 4]; expected a tensor that broadcasts to [2, 5]"),
    "previous, monotonic": (lambda: attend(X, Y, Y, align=Monotonic(), previous=torch.zeros(2, 4)), ShapeError,
        "the previous weights do not fit the keys: got [2, 4]"),
    "bias": (lambda: attend(X, Y, Y, bias=torch.zeros(3, 4)), ShapeError,
        "the bias does not fit the scores: got [3, 4]; expected a tensor that broadcasts to [2, 3, 5]"),
    "bias, fused": (lambda: attend(X, Y, Y, bias=torch.zeros(3, 4), need_weights=False), ShapeError,
        "the bias does not fit the scores: got [3, 4]; expected a tensor that broadcasts to [2, 3, 5]"),
    # masks
    "float mask": (lambda: attend(X, Y, Y, mask=torch.zeros(3, 5)), MaskError,
        "a mask must be boolean, True = may attend: got torch.float32; expected torch.bool."
        " Try: pass additive values, such as 0 and −∞, as bias=."),
    "integer mask": (lambda: layer(X, Y, mask=torch.ones(3, 5, dtype=torch.long)), MaskError,
        "got torch.int64; expected torch.bool. Try: write mask == 1 if 1 stands for: may attend."),
    "float mask to an alignment": (lambda: softmax(torch.zeros(3, 5), torch.zeros(3, 5)), MaskError, "pass additive values, such as 0 and −∞, as bias="),
    "mask shape": (lambda: attend(X, Y, Y, mask=torch.ones(4, 5, dtype=torch.bool)), MaskError,
        "the mask does not fit the scores: got [4, 5]; expected [..., 3, 5]"),
    "key padding as mask": (lambda: attend(X, Y, Y, mask=torch.ones(2, 5, dtype=torch.bool)), MaskError,
        "Mask.from_torch_key_padding"),
    "mask batch": (lambda: attend(X, Y, Y, mask=Mask.padding([1, 2, 3])), MaskError,
        "the mask does not fit the scores: got [3, 1, 5]; expected axes of 1 or those of [2, 3, 5]"),
    "mask batch, fused": (lambda: layer(X, Y, mask=Mask.padding([1, 2, 3])), MaskError,
        "the mask does not fit the scores: got [3, 1, 1, 5]; expected axes of 1 or those of [2, 2, 3, 5]"),
    "mask axes": (lambda: attend(X, Y, Y, mask=torch.ones(1, 2, 3, 5, dtype=torch.bool)), MaskError, "does not fit the scores"),
    "lengths as mask": (lambda: attend(X, Y, Y, mask=torch.tensor([3, 5])), MaskError, "Try: use Mask.padding(lengths) if these are lengths."),
    "torch key padding of numbers": (lambda: Mask.from_torch_key_padding(torch.ones(2, 5)), MaskError, "a mask must be boolean, True = padding: got torch.float32"),
    "two masks": (lambda: attend(X, Y, Y, mask=Mask.padding([3, 5]) & Mask.padding([3, 5, 5])), MaskError, "two masks do not fit each other: got [2, 1, 5] and [3, 1, 5]"),
    "no lengths": (lambda: Mask.padding(None), MaskError, "lengths: got None; expected whole numbers"),
    "half a window behind": (lambda: Mask.window(1, 1.5), ConfigError, "window: got before=1, after=1.5"),
    "half a window": (lambda: Mask.window(1.5), ConfigError, "window: got before=1.5"),
    "mask vector": (lambda: Mask.of(torch.ones(5, dtype=torch.bool)), MaskError, "a mask needs an axis of queries and one of keys"),
    "mask list": (lambda: attend(X, Y, Y, mask=[True]), MaskError, "mask: got list; expected a Mask, or a boolean tensor"),  # type: ignore[arg-type]
    "mask and": (lambda: bool(Mask.causal()), MaskError, "combine masks with & | ~, not with and, or, not"),
    "lengths beyond": (lambda: attend(X, Y, Y, mask=Mask.padding(torch.tensor([3, 6]))), MaskError,
        "a length is beyond the keys: got 6; expected at most 5. Try: count the keys that are not padding."),
    "query lengths beyond": (lambda: attend(X, Y, Y, mask=Mask.query_padding([3, 4])), MaskError,
        "a length is beyond the queries: got 4; expected at most 3"),
    "NaN in lengths": (lambda: Mask.padding(torch.tensor([3.0, math.nan])), MaskError,
        "lengths must be whole numbers: got torch.float32 with NaN; expected an integer tensor or list"),
    "float lengths": (lambda: Mask.padding([2.0, 3.0]), MaskError, "lengths must be whole numbers: got torch.float32;"),  # type: ignore[list-item]
    "negative length": (lambda: Mask.padding([2, -1]), MaskError, "a length is negative: got -1; expected 0 or more"),
    "negative window": (lambda: Mask.window(-1), ConfigError, "window: got before=-1, after=-1; expected 0 or more"),
    "zero block": (lambda: Mask.block(0), ConfigError, "block size: got 0; expected 1 or more"),
    "segments": (lambda: attend(X, Y, Y, mask=Mask.segment(torch.zeros(2, 3))), MaskError,
        "segment numbers do not fit: got 3 queries and 3 keys; expected 3 and 5"),
    "to torch": (lambda: Mask.causal().to_torch_key_padding(3), MaskError, "this mask differs from query to query"),
    # edge lists
    "edges, twice": (lambda: Edges.of(torch.tensor([[0, 2, 1, 2], [1, 0, 1, 0]]), 3), MaskError,
        "a pair is twice in the edge list: got query 2 and key 0; expected each pair once"),
    "edges, query out of range": (lambda: Edges.of(PAIR + 2, 3, 9), ShapeError,
        "targets of Edges are out of range: got numbers from 2 to 3; expected 0 to 2, as num_queries=3"),
    "edges, negative key": (lambda: Edges.of(PAIR - torch.tensor([[0], [1]]), 3), ShapeError, "sources of Edges are out of range: got numbers from -1"),
    "edges, rows of pairs": (lambda: Edges.of(torch.zeros(4, 2, dtype=torch.long), 3), ShapeError,
        "pairs of Edges: got [4, 2]; expected [2, e]: queries, then keys. Try: pass pairs.mT"),
    "edges, real numbers": (lambda: Edges(torch.zeros(2), torch.zeros(2), 3, 3), ShapeError, "targets of Edges must be whole numbers: got torch.float32. Try: convert it: targets.long"),
    "edges, a mask for numbers": (lambda: Edges(PAIR[0], PAIR[1].bool(), 3, 3), ShapeError, "sources of Edges must be whole numbers: got torch.bool. Try: use Edges.from_mask"),
    "edges, a batch of lists": (lambda: Edges(PAIR, PAIR, 3, 3), ShapeError, "targets of Edges must be a tensor with one axis: got [2, 2]; expected [e]. Try: give one list for all batch axes, or join many graphs into one list by Edges.join."),
    "edges, lengths": (lambda: Edges(PAIR[0], PAIR[1, :1], 3, 3), ShapeError, "targets and sources of Edges differ in length: got 2 and 1"),
    "edges, devices": (lambda: Edges(PAIR[0], PAIR[1].to("meta"), 3, 3), ShapeError, "on different devices: got cpu and meta"),
    "edges, size": (lambda: Edges(PAIR[0], PAIR[1], -1, 3), ConfigError, "Edges num_queries: got -1; expected 0 or more"),
    "edges, numbers for a mask": (lambda: Edges.from_mask(torch.ones(2, 2)), MaskError, "a mask must be boolean, True = may attend: got torch.float32"),
    "edges, a batch of masks": (lambda: Edges.from_mask(torch.ones(2, 2, 2).bool()), MaskError, "one edge list has one mask: got [2, 2, 2]; expected [q, k]. Try: make one list of a batch: Edges.join"),
    "edges, nothing to join": (lambda: Edges.join([]), ConfigError, "Edges.join: got no edge list"),
    "edges, loops of two sides": (lambda: Edges.of(PAIR, 2, 3).with_self_loops(), ShapeError, "self-loops need queries that are the keys: got 2 queries and 3 keys"),
    "edges, history": (lambda: LocationAware(4, 4, 6).on_edges(torch.zeros(2, 4), torch.zeros(2, 4), Edges.of(PAIR, 2)), ConfigError,
        "LocationAware has no edge form: expected a score that judges each pair by itself. Try: define compare_edges"),
    "edges, history inside": (lambda: Projected(LocationAware(4, 4, 6), 4, 4, 4).on_edges(torch.zeros(2, 4), torch.zeros(2, 4), Edges.of(PAIR, 2)),
        ConfigError, "Projected has no edge form"),
    "edges, queries": (lambda: Dot().on_edges(torch.zeros(3, 4), torch.zeros(2, 4), Edges.of(PAIR, 2)), ShapeError, "query and edges do not fit: got 3; expected 2 items"),
    "edges, keys": (lambda: Dot().on_edges(torch.zeros(2, 4), torch.zeros(1, 4), Edges.of(PAIR, 2)), ShapeError, "keys and edges do not fit: got 1; expected 2 items"),
    "edges, plain score": (lambda: attend_edges(X, X, X, EDGES, score=lambda query, keys: query @ keys.mT), ConfigError,  # type: ignore[arg-type]
        "a plain function is no score over edges: got <lambda>; expected a Score with an edge form. Try: use attend(…, mask=edges.mask())."),
    "edges, plain align": (lambda: attend_edges(X, X, X, EDGES, align=softmax), ConfigError, "a plain function is no align over edges: got softmax; expected a Align"),  # type: ignore[arg-type]
    "edges, places": (lambda: attend_edges(X, X, X, EDGES, align=Monotonic()), ConfigError, "Monotonic has no edge form: expected an alignment to which the place of a key does not matter"),
    "edges, a tensor": (lambda: attend_edges(X, X, X, PAIR), ShapeError, "edges must be an edge list: got Tensor; expected Edges. Try: make one by Edges.of(pairs, num_queries, num_keys)"),  # type: ignore[arg-type]
    "edges, sizes": (lambda: attend_edges(X, Y, Y, EDGES), ShapeError, "edges do not fit query and keys: got 3 queries and 3 keys; expected 3 and 5"),
    "edges, bias": (lambda: attend_edges(X, X, X, EDGES, bias=torch.zeros(3)), ShapeError, "the bias does not fit the edges: got [3]; expected a tensor that broadcasts to [2, 2]"),
    "edges, boolean bias": (lambda: attend_edges(X, X, X, EDGES, bias=torch.ones(2).bool()), MaskError, "a bias is added to the scores: got torch.bool. Try: leave forbidden pairs out of the edges."),
    "edges, dropout": (lambda: EdgeAttention(dropout=1.0), ConfigError, "dropout: got 1.0; expected 0 ≤ dropout < 1"),
    "edges, elsewhere": (lambda: attend_edges(X, X, X, Edges.of(PAIR.to("meta"), 3)), ShapeError, "edges and query are on different devices: got meta and cpu; expected one. Try: move them: edges.to(query.device)."),
    "edges, meta trace": (lambda: traced_edges(X.to("meta")), RegardError, "a trace of meta tensors: got tensors without numbers"),
    "concatenation width": (lambda: attend(X, NARROW, NARROW, score=Concatenation(8)), ShapeError, "keys has the wrong width: got 6; expected 8. Try: write Concatenation(dim) with the width of both sides."),
    "graph additive width": (lambda: attend(X, NARROW, NARROW, score=GraphAdditive(8)), ShapeError, "keys has the wrong width: got 6; expected 8"),
    # settings
    "alpha 1": (lambda: Entmax(1.0), ConfigError,
        "entmax alpha: got 1.0; expected 1 < alpha ≤ 2. Try: use Softmax() for 1 and Sparsemax() for 2."),
    "alpha above 2": (lambda: Entmax(2.1), ConfigError, "entmax alpha: got 2.1"),
    "alpha NaN": (lambda: entmax(torch.zeros(1, 2), alpha=math.nan), ConfigError, "entmax alpha: got nan"),
    "alpha to learn": (lambda: Entmax(2.0, learned=True), ConfigError, "expected 1.001 < alpha < 2"),
    "alpha tensor": (lambda: entmax(torch.zeros(1, 2), alpha=torch.tensor([1.5, 1.0])), ConfigError, "got [1.5, 1.0]; expected 1 < alpha ≤ 2 everywhere"),
    "previous batch": (lambda: attend(X, Y, Y, align=Monotonic(), previous=torch.zeros(3, 5)), ShapeError, "got [3, 5]; expected a tensor that broadcasts to [2, 5]"),
    "no keys for an alignment": (lambda: softmax(torch.zeros(2, 3, 0)), ShapeError, "there are no keys to align: got [2, 3, 0]"),
    "alpha for other heads": (lambda: Entmax(1.5, learned=True, num_heads=4)(torch.zeros(2, 3, 5, 5)), ShapeError, "entmax has an alpha for each head: got [2, 3, 5, 5]; expected [..., 4, q, k]"),
    "base class": (lambda: TopK(2, base=Softmax), ConfigError, "base must be an alignment: got Softmax; expected an object such as Softmax()"),
    "step axes": (lambda: LocalMonotonic(1)(torch.zeros(2, 3, 5), step=torch.zeros(2, 3)), ShapeError, "step has too many axes: got [2, 3]"),
    "strengths to learn": (lambda: Cosine(torch.ones(3), learned=True), ConfigError, "Cosine strength to learn: got [3]; expected one number"),
    "alpha heads": (lambda: Entmax(1.5, num_heads=4), ConfigError, "with learned=True"),
    "temperature": (lambda: Softmax(0.0), ConfigError, "Softmax temperature: got 0.0; expected more than 0"),
    "estimator": (lambda: Hard("reinforce"), ConfigError, "Hard estimator: got 'reinforce'; expected one of argmax"),  # type: ignore[arg-type]
    "hard temperature": (lambda: Hard("gumbel", temperature=0.0), ConfigError, "Hard temperature: got 0.0"),
    "top 0": (lambda: TopK(0), ConfigError, "TopK k: got 0; expected a whole number, at least 1"),
    "local window": (lambda: LocalMonotonic(-1), ConfigError, "local window: got -1; expected 0 or more"),
    "local-p window": (lambda: LocalPredictive(8, window=0), ConfigError, "expected both at least 1"),
    "local-p alone": (lambda: LocalPredictive(8)(torch.zeros(1, 2, 3)), ConfigError, "pass query="),
    "noise": (lambda: Monotonic(noise=-1.0), ConfigError, "Monotonic noise: got -1.0"),
    "kernel": (lambda: Distance("cubic"), ConfigError, "Distance kernel: got 'cubic'; expected 'inverse' or 'gaussian'"),
    "bandwidth": (lambda: Distance("gaussian", bandwidth=0.0), ConfigError, "Distance bandwidth: got 0.0; expected more than 0"),
    "zero width": (lambda: Additive(8, 0, 4), ConfigError, "Additive key_dim: got 0; expected more than 0"),
    "even filter": (lambda: LocationAware(8, 8, 4, width=4), ConfigError, "expected an odd number"),
    "zero heads": (lambda: MultiHead(8, num_heads=0), ConfigError, "the number of heads: got num_heads=0"),
    "heads do not divide": (lambda: MultiHead(512, num_heads=7), ConfigError,
        "num_heads does not divide dim: got dim=512, num_heads=7; expected a multiple of num_heads."
        " Try: use dim=511, or a number of heads that divides 512."),
    "key heads": (lambda: MultiHead(8, num_heads=4, num_key_heads=3), ConfigError, "num_key_heads does not divide num_heads"),
    "impl": (lambda: Attention(impl="flash"), ConfigError, "impl: got 'flash'; expected one of auto, reference, sdpa"),
    "impl twice": (lambda: MultiHead(8, num_heads=2, attention=Attention(), impl="sdpa"), ConfigError, "write Attention(…, impl=…)"),
    "dropout": (lambda: Attention(dropout=1.0), ConfigError, "dropout: got 1.0; expected 0 ≤ dropout < 1"),
    "attend dropout": (lambda: attend(X, Y, Y, dropout=-0.1), ConfigError, "dropout: got -0.1; expected 0 ≤ dropout < 1"),
    "class, not object": (lambda: Attention(score=Dot), ConfigError,
        "score must be an object, not a class: got Dot. Try: write Dot(…)."),
    "name, not object": (lambda: attend(X, Y, Y, align="softmax"), ConfigError,  # type: ignore[arg-type]
        "align must be callable: got 'softmax'; expected an object such as Softmax()"),
    "attention of a layer": (lambda: MultiHead(8, num_heads=2, attention=Additive(4, 4, 4)), ConfigError,  # type: ignore[arg-type]
        "attention: got Additive; expected Attention(score=…, align=…)"),
    "cache and keys": (lambda: layer(X, Y, cache=Cache()), ConfigError, "keys=, cache= and earlier= exclude each other: got keys, cache. Try: pass keys for cross-attention, such as layer.prepare(memory)"),
    "prepare with positions": (lambda: MultiHead(8, num_heads=2, position=Rotary()).prepare(Y), ConfigError, "pass raw keys"),
    # positions
    "positions of keys": (lambda: MultiHead(8, num_heads=2, position=Rotary())(X, Y), ConfigError, "positions are for self-attention: got keys, and Rotary. Try: pass earlier states of the same sequence as earlier="),
    "input position": (lambda: MultiHead(8, num_heads=2, position=Sinusoidal(8)), ConfigError, "Try: write x = position(x) before the layer."),
    "position class": (lambda: MultiHead(8, num_heads=2, position=Rotary), ConfigError, "position must be an object"),
    "position name": (lambda: MultiHead(8, num_heads=2, position="rotary"), ConfigError, "position must be an object: got 'rotary'; expected one such as Rotary()"),
    "relative and dot": (lambda: MultiHead(8, num_heads=2, position=Relative(2, 4), attention=Attention(Dot())), ConfigError, "Relative goes with ScaledDot: got Dot"),
    "offset axes": (lambda: Sinusoidal(8)(X, offset=torch.zeros(2, 3)), ShapeError, "offset has too many axes: got [2, 3]"),
    "odd sinusoid": (lambda: sinusoid(torch.zeros(3), 5), ConfigError, "sinusoid dim: got 5; expected an even number"),
    "sinusoid width": (lambda: Sinusoidal(6)(X), ShapeError, "input has the wrong width: got 8; expected 6"),
    "beyond learned": (lambda: Learned(4, 8)(X, offset=2), ShapeError, "got positions 2 to 4; expected 0 to 3"),
    "negative offset": (lambda: Learned(4, 8)(X, offset=-1), ShapeError, "got positions -1 to 1"),
    "values twice": (lambda: layer(X, layer.prepare(Y), Y), ConfigError, "a prepared memory has its values"),
    "ragged table": (lambda: lookup({1: [1.0], 2: [2.0, 3.0]}, 1, score=Distance()), ShapeError, "values of a soft look-up differ in width: got [1, 2]"),
    "far from all keys": (lambda: lookup({0: 1.0, 1000: 2.0}, 500, score=Distance("gaussian")), RegardError, "no key is near enough"),
    "score of one axis": (lambda: attend(X, Y, Y, score=lambda query, keys: torch.zeros(5)), ShapeError, "returned no score for each pair: got [5]"),
    "learned width": (lambda: Learned(4, 6)(X), ShapeError, "input has the wrong width: got 8; expected 6"),
    "odd rotary": (lambda: MultiHead(6, num_heads=2, position=Rotary())(torch.zeros(1, 2, 6)), ConfigError, "Rotary head dim: got 3"),
    "alibi heads": (lambda: MultiHead(8, num_heads=2, position=ALiBi(4))(X), ShapeError, "got 2 heads; expected 4"),
    "no alibi heads": (lambda: ALiBi(0), ConfigError, "ALiBi num_heads: got 0"),
    "relative heads": (lambda: MultiHead(8, num_heads=2, position=Relative(4, 2))(X), ShapeError, "expected 4 of width 2"),
    "relative shift": (lambda: relative_shift(torch.zeros(3, 6), 5), ShapeError, "columns of relative scores: got 6"),
    # paths
    "sdpa, every reason": (lambda: attend(X, Y, Y, score=Additive(8, 8, 4), align=Sigmoid(), impl="sdpa"), ImplementationUnavailable,
        "impl='sdpa' cannot run here: score=Additive is not a dot product of transformed queries and keys;"
        " align=Sigmoid is not Softmax. Try: use impl='auto' or impl='reference'"),
    # look-up and trace
    "empty table": (lambda: lookup({}, 1), RegardError, "the table is empty"),
    "words in a soft table": (lambda: lookup({"a": 1.0}, "b", score=Distance()), ShapeError, "a soft look-up mixes numbers: got 'a'"),
    "query unlike keys": (lambda: lookup({1.0: 1.0}, (1.0, 2.0), score=Distance()), ShapeError, "the query is not like the keys"),
    "trace of no model": (lambda: trace("model").__enter__(), ConfigError, "trace takes a model: got str"),  # type: ignore[arg-type]
    "not JSON": (lambda: Trace.from_json("{"), RegardError, "this is not JSON"),
    "not a trace": (lambda: Trace.from_json("[]"), RegardError, "this is not a trace"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_mistake(case: str) -> None:
    act, kind, text = TABLE[case]
    with pytest.raises(kind, match=re.escape(text)):
        act()


@pytest.mark.parametrize("side", ["query", "keys"])
@pytest.mark.parametrize("name", SCORE_EXAMPLES)
def test_every_score_refuses_a_wrong_width(name: str, side: str) -> None:
    """With what it got, what it expected, and a cure; a score that does not look at the keys takes any."""
    score = SCORE_EXAMPLES[name](8)
    query, keys = (NARROW[:, :3], Y) if side == "query" else (X, NARROW)
    if score.depends_on_place and side == "keys":
        assert attend(query, keys, keys, score=score).weights.shape == (2, 3, 5)
        return
    with pytest.raises(ShapeError, match=r"width.*: got .*6.*; expected .*\. Try: "):
        attend(query, keys, keys, score=score)


def test_nothing_is_recorded_by_a_failed_call() -> None:
    with trace() as seen:
        with pytest.raises(MaskError):
            layer(X, mask=torch.zeros(3, 3))
        layer(X)
    assert list(seen) == ["multihead.0"]
    assert len(seen[0].calls) == 1


def test_default_score_is_scaled_dot() -> None:
    query, keys = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    torch.testing.assert_close(attend(query, keys, keys).weights, attend(query, keys, keys, score=ScaledDot()).weights)

"""Decoding: from a model that goes one step to hypotheses. It knows a protocol, `step(tokens, state)`, and no model."""

from regard.decode.beam import beam_search
from regard.decode.consensus import consensus
from regard.decode.greedy import greedy
from regard.decode.hypothesis import Hypothesis, coverage_penalty, length_penalty
from regard.decode.protocol import Decodable, Shared, Step, pick
from regard.decode.sample import sample, truncate

__all__ = [
    "Decodable",
    "Hypothesis",
    "Shared",
    "Step",
    "beam_search",
    "consensus",
    "coverage_penalty",
    "greedy",
    "length_penalty",
    "pick",
    "sample",
    "truncate",
]

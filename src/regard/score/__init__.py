"""Scores: how well does each key answer the query? (query, keys) → scores.

The menu below is the registry: a name for settings and the command line, and the class behind it.
Any callable `(query, keys) -> scores` is a score too; the classes add projections and `prepare`.
"""

from regard.score.additive import Additive, Concat, ProjectedAdditive, additive
from regard.score.cosine import Cosine, cosine
from regard.score.distance import Distance, gaussian_kernel, inverse_distance
from regard.score.dot import Dot, General, ScaledDot, dot, general, scaled_dot
from regard.score.edge import Edges
from regard.score.halves import Concatenation, GraphAdditive, graph_additive
from regard.score.leaky import LeakyAdditive, leaky_additive
from regard.score.location import Location, LocationAware, location
from regard.score.projected import Projected
from regard.score.score import DotForm, Prepared, Score

SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "additive": Additive,
    "concat": Concat,
    "projected_additive": ProjectedAdditive,
    "graph_additive": GraphAdditive,
    "leaky_additive": LeakyAdditive,
    "concatenation": Concatenation,
    "cosine": Cosine,
    "location": Location,
    "location_aware": LocationAware,
    "distance": Distance,
    "projected": Projected,
}

__all__ = [
    "SCORES",
    "Additive",
    "Concat",
    "Concatenation",
    "Cosine",
    "Distance",
    "Dot",
    "DotForm",
    "Edges",
    "General",
    "GraphAdditive",
    "LeakyAdditive",
    "Location",
    "LocationAware",
    "Prepared",
    "Projected",
    "ProjectedAdditive",
    "ScaledDot",
    "Score",
    "additive",
    "cosine",
    "dot",
    "gaussian_kernel",
    "general",
    "graph_additive",
    "inverse_distance",
    "leaky_additive",
    "location",
    "scaled_dot",
]

"""What was attended to, as data: a few kinds of explanations, each of numbers and labels, that JSON can hold.

A task makes them, `regard.viz` draws them, a page embeds them, and a notebook shows them.
"""

from regard.explanation.blocks import Blocks
from regard.explanation.boxes import Boxes
from regard.explanation.concepts import Concepts, Neighbour
from regard.explanation.displayed import Displayed
from regard.explanation.edges import EdgeWeights
from regard.explanation.explanation import Explanation
from regard.explanation.gallery import Gallery
from regard.explanation.gates import Gates
from regard.explanation.hops import Hops
from regard.explanation.matrix import Matrix
from regard.explanation.path import Path
from regard.explanation.places import Places
from regard.explanation.reading import explanation_from_json
from regard.explanation.shading import Shading
from regard.explanation.tape import Tape
from regard.explanation.video import Video, side_by_side

EXPLANATIONS: dict[str, type[Explanation]] = {
    "matrix": Matrix,
    "path": Path,
    "places": Places,
    "gates": Gates,
    "edges": EdgeWeights,
    "hops": Hops,
    "tape": Tape,
    "shading": Shading,
    "concepts": Concepts,
    "blocks": Blocks,
    "gallery": Gallery,
    "boxes": Boxes,
    "video": Video,
}

__all__ = [
    "EXPLANATIONS",
    "Blocks",
    "Boxes",
    "Concepts",
    "Displayed",
    "EdgeWeights",
    "Explanation",
    "Gallery",
    "Gates",
    "Hops",
    "Matrix",
    "Neighbour",
    "Path",
    "Places",
    "Shading",
    "Tape",
    "Video",
    "explanation_from_json",
    "side_by_side",
]

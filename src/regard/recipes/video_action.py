"""Video Action Transformer (Girdhar et al. 2019) on generated scenes with two actors, and on the Weizmann silhouettes.

AVA, the films of the paper, is out of reach here; so is a trunk that learnt from Kinetics. The trunk is small and
begins anew. The head is the paper's: a query for each box, Tx units over the whole map. `two_actors` and its
twins differ in the head alone. `weizmann` trains nine networks in one run, one for each person that is left out; its
weights are the running mean at the end of the training, so no figure of the left-out person chooses anything. To
choose settings, `task.validate_inside=true` leaves out a second person for each network.
"""

from dataclasses import replace
from typing import Any

from regard.models import VideoActionConfig
from regard.recipes.recipe import Recipe
from regard.tasks import ActionRecognitionConfig
from regard.train import Train

SCENES = ActionRecognitionConfig(dataset="two_actors", batch_size=128)
SCENE_MODEL = VideoActionConfig(dropout=0.1)
SCENE_TRAIN = Train(
    steps=4000, optimiser="adamw", lr=1.5e-3, weight_decay=0.02, schedule="cosine", warmup=200, floor=0.01, clip=1.0,
    precision="bfloat16", capture=True, log_every=100, evaluate_every=500, save_every=1000, keep=1,
)  # fmt: skip
SILHOUETTES = ActionRecognitionConfig(
    dataset="weizmann", several=False, frames=16, height=48, width=48, batch_size=32, leave_one_out=True,
    window=0.667, stride=1.5, speed=1.25, zoom=1.15, shift=0.08, mirror=True, smoothing=0.1,
)  # fmt: skip
SILHOUETTE_MODEL = VideoActionConfig(
    trunk=(16, 32, 64), locations="relative", dim=64, layers=2, hidden_dim=128, dropout=0.3
)
SILHOUETTE_TRAIN = Train(
    steps=1500, optimiser="adamw", lr=2e-3, weight_decay=0.05, schedule="cosine", warmup=150, clip=None, ema=0.99,
    average=1, precision="bfloat16", capture=True, log_every=100, evaluate_every=500, save_every=500, keep=1,
)  # fmt: skip


def two_actors() -> Recipe:
    """Two actors: what one does decides labels of the other; Tx head with absolute locations."""
    return _scenes("2 heads × 3 layers over the whole clip", "(25.0 mAP on AVA)")


def two_actors_relative() -> Recipe:
    """Two actors, with the locations of cells as seen from each box."""
    return _scenes("locations relative to the box", locations="relative")


def two_actors_low() -> Recipe:
    """Two actors, with the mean of a box as its query."""
    return _scenes("query without the layout of the box", query="low")


def two_actors_without_locations() -> Recipe:
    """The twin of `two_actors` without location embeddings."""
    return _scenes("no location embedding", locations="none")


def two_actors_roi() -> Recipe:
    """The twin of `two_actors` that classifies the pooled box."""
    return _scenes("RoI head: the box alone", head="roi")


def two_actors_i3d() -> Recipe:
    """The twin of `two_actors` with the paper's base head: convolutions on the box at all times."""
    return _scenes("I3D head: convolutions on the box at all times", "(23.4 mAP on AVA, given boxes)", head="i3d")


def two_actors_box_only() -> Recipe:
    """A control: all pixels outside of the box are blank, so labels of context can only be guessed."""
    recipe = _scenes("Tx head, blank outside of the box")
    return replace(recipe, task=replace(SCENES, box_only=True, batch_size=64), train=replace(SCENE_TRAIN, steps=2000))


def weizmann() -> Recipe:
    """Silhouettes of ten actions, each of nine persons left out once: nine networks in one run."""
    return _silhouettes("nine persons, each left out once; 2 heads × 2 layers", "")


def weizmann_roi() -> Recipe:
    """The twin of `weizmann` that classifies the pooled box of the middle frame."""
    return _silhouettes("RoI head: the box of the middle frame", "", head="roi")


def weizmann_i3d() -> Recipe:
    """The twin of `weizmann` with convolutions on the box at all times."""
    return _silhouettes("I3D head: convolutions on the box at all times", "", head="i3d")


def weizmann_without_locations() -> Recipe:
    """The twin of `weizmann` without location embeddings."""
    return _silhouettes("no location embedding", "", locations="none")


def smoke() -> Recipe:
    """Small scenes with two actors, on a CPU, in half a minute."""
    model = VideoActionConfig(trunk=(8, 16, 16), dim=32, layers=2, hidden_dim=64, roi_size=3, dropout=0.0)
    task = ActionRecognitionConfig(frames=8, height=16, width=32, batch_size=24, held_out=256)
    train = Train(steps=300, optimiser="adamw", lr=3e-3, weight_decay=0.01, schedule="cosine", warmup=30, log_every=50,
                  evaluate_every=150, save_every=300, keep=1)  # fmt: skip
    return Recipe(paper="video_action", model=model, task=task, train=train, note="small scenes on a CPU")


def _scenes(note: str, published: str = "", **changes: Any) -> Recipe:
    model = replace(SCENE_MODEL, **changes)
    return Recipe(paper="video_action", model=model, task=SCENES, train=SCENE_TRAIN, note=note, published=published)


def _silhouettes(note: str, published: str, **changes: Any) -> Recipe:
    model = replace(SILHOUETTE_MODEL, **changes)
    train = SILHOUETTE_TRAIN
    return Recipe(paper="video_action", model=model, task=SILHOUETTES, train=train, note=note, published=published)

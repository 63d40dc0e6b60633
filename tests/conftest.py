"""What every test shares: one seed, a cache folder of its own, and no GPU unless there is one; `import examples_of`."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from table import start_from_seed

if importlib.util.find_spec("beartype"):  # a machine with a GPU may have none, and then runs without the hook
    import quick_hook

    quick_hook.install()  # before the package is imported, and so without effect where its hook is not asked for


@pytest.fixture(autouse=True)
def _seed() -> None:
    start_from_seed()


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is written into the cache folder of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def random_explanations() -> Callable[[int], dict[str, Any]]:
    """One explanation of each kind from a seed: of any size, none of something included, with labels in any script."""
    return _random_explanations


def _random_explanations(seed: int) -> dict[str, Any]:
    from examples_of import mirror_of

    from regard.explanation import EXPLANATIONS, EdgeWeights, Gates, Hops, Matrix, Path, Places, Shading, Tape

    rng = np.random.default_rng(seed)

    def count(least: int = 0) -> int:
        return int(rng.integers(least, 7))

    def labels(number: int) -> list[str]:
        words = ["la", "▁mais", "", " ", "a\nb", "мир", "مدرسة", "他", "$x_1$", "<b>&\"'", "_x", "\x00", "Do" * 30]
        return [words[place] for place in rng.integers(0, len(words), number)]

    rows, columns, steps, nodes, edges, slots = (count() for _ in range(6))
    edges = edges if nodes else 0
    heads = [(), (count(1),)][count() % 2]
    image = rng.integers(0, 256, (count(1), count(1), 3), dtype=np.uint8)
    places = count()
    raster = bool(count() % 2)
    grid = (count(), count()) if raster else None
    number = grid[0] * grid[1] if grid else places
    points = rng.random((number, 2)) * (np.array(image.shape[:2]) - 1)
    classes = count(1)
    [title, layer] = labels(2)
    examples = {
        "matrix": Matrix(rng.random((*heads, rows, columns)), labels(rows), labels(columns), layer, title),
        "path": Path(image, rng.uniform(-1, 1, (steps, 2)), count(1), count(1), layer, title),
        "places": Places(
            image, rng.normal(size=(number, count(1), count(1))), labels(number), (0, -0.5, 2.5, 3) if raster else None,
            points if count() % 2 else None, grid, title,
        ),
        "gates": Gates(
            {name: rng.random((places, count())) for name in sorted(set(labels(count())))},
            rng.integers(0, classes, places), labels(classes), title,
        ),
        "edges": EdgeWeights(
            rng.random((*heads, edges)), rng.integers(0, max(nodes, 1), edges), rng.integers(0, max(nodes, 1), edges),
            labels(nodes), title,
        ),
        "hops": Hops(rng.random((rows, slots)), labels(slots), list(range(0, slots, 2)), *labels(2), title),
        "tape": Tape({name: rng.random((steps, count())) for name in ("read 0", "write 0")}, labels(steps), title),
        "shading": Shading(rng.random((rows, slots)), labels(slots), *labels(1), title),
    }  # fmt: skip
    return examples | {kind: mirror_of(kind).random_example(rng) for kind in EXPLANATIONS if kind not in examples}

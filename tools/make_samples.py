"""Paint the sample pictures that the package ships.

    python tools/make_samples.py

They come from the library's own generators and from the digits that it holds, so their licences are its own and that of
the digits. The same library paints the same pictures; JPEG and PNG writers may pack them in other bytes.
"""

import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from regard.base import write_atomically
from regard.datasets.digits import digits
from regard.datasets.shapes import shapes
from regard.recipes import RECIPES, build_task, change

FOLDER = Path(__file__).parents[1] / "src" / "regard" / "datasets" / "samples"
SEED = 7


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    test = digits()["test"]
    five = int((test.labels == 5).nonzero()[2])
    write("digit.png", test.images[five, 0].numpy())
    canvas = build_task(RECIPES["ram/digits60"]()).held_out("test")
    write("clutter.png", canvas.images[10, 0].numpy())
    made = shapes((0, 0, 1), seed=15)["test"]
    write_atomically(FOLDER / "shapes.png", made.read(made.names[0]))
    words = build_task(RECIPES["scene_text/rendered_small"]()).held_out("rendered")
    number = next(row for row, text in enumerate(words.texts) if 6 <= len(text) <= 9)
    write("word.png", np.asarray(words.images[number, 0]))
    numbers = build_task(change(RECIPES["scene_text/smoke"](), ["task.longest=4", "task.width=48"])).held_out(
        "rendered"
    )
    of_four = next(row for row, text in enumerate(numbers.texts) if len(text) == 4)
    write("number.png", np.asarray(numbers.images[of_four, 0]))
    torch.manual_seed(SEED)
    sign = build_task(RECIPES["scene_text/signs"]()).splits["test"].images[0, 0]
    write("sign.png", (sign * 255).round().to(torch.uint8).numpy())
    write("landscape.jpg", landscape())
    print(*(f"{path.name}: {path.stat().st_size:,} bytes" for path in sorted(FOLDER.glob("*.??g"))), sep="\n")
    print(
        f"the word is {words.texts[number]!r}, the digit in clutter {int(canvas.labels[10])}, {made.captions[0][0]!r}"
    )


def write(name: str, pixels: NDArray[np.uint8]) -> None:
    """A picture into its file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG" if name.endswith("jpg") else "PNG", quality=88, optimize=True)
    write_atomically(FOLDER / name, file.getvalue())


def landscape(height: int = 240, width: int = 320) -> NDArray[np.uint8]:
    """Sky with a sun, hills behind one another, a lake, a house and trees, with the grain of a camera."""
    draw = np.random.default_rng(SEED)
    down, across = np.mgrid[:height, :width].astype(float)
    sky = down[..., None] / height
    image = (1 - sky) * np.array([70.0, 130.0, 205.0]) + sky * np.array([250.0, 215.0, 170.0])
    sun = np.hypot(down - 62, across - 236)
    image += (60 * np.exp(-sun / 40) + 130 * (sun < 17))[..., None] * np.array([1.0, 0.85, 0.5])
    for base, swing, colour in ((120, 26, (120, 140, 165)), (148, 20, (85, 120, 100)), (176, 12, (62, 102, 55))):
        waves = sum(
            np.sin(across[0] * draw.uniform(0.01, 0.05) + draw.uniform(0, 6.3)) / (1 + part) for part in range(4)
        )
        ridge = base - swing * waves / 2
        inside = down > ridge
        shade = 0.85 + 0.25 * np.clip((down - ridge) / 60, 0, 1)
        image = np.where(inside[..., None], np.array(colour) * shade[..., None], image)
    lake = (down > 196 + 3 * np.sin(across / 23)) & (across > 150)
    ripples = 12 * np.sin(down * 1.9 + np.sin(across / 9))
    image = np.where(lake[..., None], np.array([96.0, 140.0, 178.0]) + ripples[..., None], image)
    house = (down > 158) & (down < 192) & (abs(across - 84) < 24)
    roof = (down > 136) & (down <= 158) & (abs(across - 84) < (down - 134) * 1.35)
    door = (down > 172) & (down < 192) & (abs(across - 92) < 5)
    window = (abs(down - 170) < 6) & (abs(across - 72) < 6)
    for part, colour in (
        (house, (226, 214, 190)),
        (roof, (168, 62, 44)),
        (door, (92, 58, 34)),
        (window, (70, 92, 120)),
    ):
        image = np.where(part[..., None], np.array(colour, float), image)
    for middle, top, wide in ((30, 128, 17), (128, 142, 14), (52, 150, 11)):
        trunk = (abs(across - middle) < 2.5) & (down > top + 30) & (down < top + 62)
        crown = np.hypot((down - top - 22) / 1.3, across - middle) < wide + 2 * np.sin(down + across)
        image = np.where(trunk[..., None], np.array([80.0, 55.0, 35.0]), image)
        leaves = np.array([44.0, 92.0, 40.0]) + 18 * np.sin(across * 0.9)[..., None] * np.cos(down * 0.7)[..., None]
        image = np.where(crown[..., None], leaves, image)
    image += draw.normal(0, 4, (height, width, 1))
    painted: NDArray[np.uint8] = np.clip(image, 0, 255).astype(np.uint8)
    return painted


if __name__ == "__main__":
    main()

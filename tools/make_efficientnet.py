"""Make the weights of EfficientNet-Lite0 that the package ships: those that are published, in half precision.

    python tools/make_efficientnet.py                       # reads efficientnet_lite0/….pth below REGARD_DATA
    python tools/make_efficientnet.py --measure FOLDER      # also how far its features move, on a folder of pictures

Convolutions become float16; the numbers of batch normalisations stay float32, and the classifier of ImageNet is left
out.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from regard.base.files import replacing
from regard.data.download import find
from regard.data.images import fit_image, read_image
from regard.nn import EfficientNetLite0
from regard.nn.efficientnet import EMBEDDED, WEIGHTS, load_published

OUTPUT = Path(__file__).parents[1] / "src" / "regard" / EMBEDDED
SIDE = 320


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    stored = torch.load(find(WEIGHTS), map_location="cpu", weights_only=True)
    halved = {name: half(tensor) for name, tensor in stored.items() if not name.startswith("_fc")}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    with replacing(OUTPUT) as unfinished:
        save_file(halved, unfinished)
    print(f"{OUTPUT.name}: {len(halved)} tensors, {OUTPUT.stat().st_size / 1e6:.2f} MB")
    if asked.measure:
        measure(sorted(asked.measure.iterdir()))


def half(tensor: torch.Tensor) -> torch.Tensor:
    """Matrices and filters in half precision, all else as it is."""
    return tensor.half().contiguous() if tensor.is_floating_point() and tensor.ndim > 1 else tensor.contiguous()


@torch.no_grad()
def measure(paths: list[Path]) -> None:
    """How far features move, and whether the classifier of the published weights says the same of them."""
    exact, shipped = EfficientNetLite0(classes=1000).eval(), EfficientNetLite0().eval()
    load_published(exact, find(WEIGHTS))
    load_published(shipped, OUTPUT)
    apart, alike, count = [], 0, 0
    for path in paths:
        picture = fit_image(read_image(path.read_bytes()), SIDE, whole=False)
        seen = (torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))).float()[None] - 127) / 128
        classifier, exact.classifier = exact.classifier, None
        first, second = exact(seen), shipped(seen)
        exact.classifier = classifier
        assert classifier is not None
        apart.append(float((first - second).norm() / first.norm()))
        alike += int(classifier(first.mean((2, 3))).argmax() == classifier(second.mean((2, 3))).argmax())
        count += 1
    worst, mean = max(apart), sum(apart) / count
    print(
        f"{count} pictures: features move by {mean:.2e} of their length, {worst:.2e} at most; "
        f"{alike} classes are the same"
    )


if __name__ == "__main__":
    main()

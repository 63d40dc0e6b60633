"""EfficientNet-Lite0 (Tan & Le 2019; the lite series of 2020) as an encoder of pictures, and the door for any other.

EfficientNet-B0 without squeeze-and-excitation and with ReLU6. The padding is TensorFlow's: ⌈size / stride⌉ places come
out, and where the padding is odd the larger half is at the right and at the bottom. While the statistics of a batch
normalisation are fixed it is part of the convolution before it, in training too.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.base import ConfigError, RegardError, ShapeError
from regard.data.download import find, is_here
from regard.data.sources import Source

STAGES = (  # expansion, channels, blocks, stride, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
STEM, HEAD, CLASSES = 32, 1280, 1000
TOP = len(STAGES) + 1  # the stage of the head
WEIGHTS = Source(  # as published; no address has these very bytes
    "efficientnet_lite0/efficientnet-lite0-57934424.pth",
    url=None,
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    num_bytes=18_826_032,
    licence="Apache-2.0",
)
EMBEDDED = "recipes/shipped/efficientnet-lite0/weights.safetensors"  # the same in half precision, in the package
_MEAN, _SCALE = 127 / 255, 128 / 255  # of the lite series


class Features(NamedTuple):
    """What an encoder saw: a vector for each place of a grid, row by row."""

    values: Tensor  # [b k d]
    grid: tuple[int, int]  # rows and columns, k of them together


@runtime_checkable
class Encoder(Protocol):
    """Pictures [b 3 h w], from 0 to 1, → `Features`."""

    channels: int

    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Features:
        """Encode a batch."""
        ...


class Backbone(nn.Module):
    """Any network that makes a map [b d h w] of pictures, as an encoder: (x − mean) / scale goes in, places come out.

    Batch normalisation always uses its stored statistics: a batch of captions is no sample of pictures.

    >>> Backbone(nn.Conv2d(3, 8, 4, stride=4), channels=8)(torch.zeros(2, 3, 16, 12)).grid
    (4, 3)
    """

    def __init__(
        self,
        module: nn.Module | Callable[[Tensor], Tensor],
        *,
        channels: int,
        mean: float | Sequence[float] = (0.485, 0.456, 0.406),
        scale: float | Sequence[float] = (0.229, 0.224, 0.225),
    ) -> None:
        super().__init__()
        self.module, self.channels = module, channels
        for name, numbers in (("mean", mean), ("scale", scale)):
            by_channel = [numbers] * 3 if isinstance(numbers, int | float) else numbers
            self.register_buffer(name, torch.tensor(list(by_channel)).view(3, 1, 1), persistent=False)
        self.mean: Tensor
        self.scale: Tensor
        self._hold_statistics()

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Features:
        """Vectors of all places."""
        maps = self.module((images - self.mean) / self.scale)
        if not isinstance(maps, Tensor) or maps.ndim != 4 or maps.shape[1] != self.channels:
            raise ShapeError(
                "the backbone gives no map of features",
                got=list(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__,
                expected=f"[b {self.channels} h w]",
                cure="cut off pooling and classifier, and say how many channels are left",
            )
        return Features(maps.flatten(2).mT, (maps.shape[2], maps.shape[3]))

    def train(self, mode: bool = True) -> "Backbone":
        """Training or not, but for batch normalisation."""
        super().train(mode)
        self._hold_statistics()
        return self

    def _hold_statistics(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


class Patches(nn.Module):
    """Squares of `side` × `side` pixels as they are, and where they lie: an encoder that needs no weights."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side, self.channels = side, 3 * side**2 + 2

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b d r c"]:
        """[b 3·side² + 2 h/side w/side]; the last two are row and column, from −4 to 4: as loud as pixels."""
        pixels = F.pixel_unshuffle(images, self.side)
        rows, columns = (torch.linspace(-4, 4, size, device=images.device) for size in pixels.shape[2:])
        places = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).to(pixels.dtype)
        return torch.cat([pixels, places.expand(len(pixels), -1, -1, -1)], 1)


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding, whatever the size of the picture."""

    def __init__(self, inside: int, outside: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inside, outside, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d r s"]:
        """⌈h / stride⌉ × ⌈w / stride⌉ places."""
        return self.convolve(x, self.weight, None)

    def convolve(
        self, x: Float[Tensor, "b c h w"], weight: Float[Tensor, "d e k k"], bias: Float[Tensor, " d"] | None
    ) -> Float[Tensor, "b d r s"]:
        """The same with another weight and a bias."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, right = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:])
        if down % 2 or right % 2:
            x = F.pad(x, (right // 2, right - right // 2, down // 2, down - down // 2))
            return F.conv2d(x, weight, bias, stride=stride, groups=self.groups)
        return F.conv2d(x, weight, bias, stride=stride, padding=(down // 2, right // 2), groups=self.groups)


def normalised(x: Float[Tensor, "b c h w"], conv: SameConv, norm: nn.BatchNorm2d) -> Float[Tensor, "b d r s"]:
    """norm(conv(x)); with fixed statistics one convolution, of weight w γ / √(σ² + ε) and bias β − μ γ / √(σ² + ε).

    Both are made anew at each call, so w, γ and β learn as they would apart.
    """
    if norm.training or norm.running_var is None or norm.running_mean is None:
        apart: Tensor = norm(conv(x))
        return apart
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    bias = torch.addcmul(norm.bias, norm.running_mean, scale, value=-1)
    return conv.convolve(x, (conv.weight * scale.view(-1, 1, 1, 1)).to(x.dtype), bias.to(x.dtype))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _relu6(x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """In place: no convolution needs what it gave."""
    return F.relu6(x, inplace=True)


class InvertedBlock(nn.Module):
    """Widen, look around in each channel, narrow; added to what came in where shapes allow (MobileNetV2)."""

    def __init__(self, inside: int, outside: int, *, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inside * expansion
        self.expand = SameConv(inside, wide, 1) if expansion > 1 else None
        self.expand_norm = _norm(wide) if expansion > 1 else None
        self.depthwise, self.depthwise_norm = SameConv(wide, wide, kernel, stride=stride, groups=wide), _norm(wide)
        self.project, self.project_norm = SameConv(wide, outside, 1), _norm(outside)
        self.adds = stride == 1 and inside == outside

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d r s"]:
        """[b inside h w] → [b outside h/stride w/stride]."""
        wide = x
        if self.expand is not None and self.expand_norm is not None:
            wide = _relu6(normalised(x, self.expand, self.expand_norm))
        wide = _relu6(normalised(wide, self.depthwise, self.depthwise_norm))
        narrow = normalised(wide, self.project, self.project_norm)
        return x + narrow if self.adds else narrow


class EfficientNetLite0(nn.Module):
    """The map of features after `stage`: 1 to 7 as in the table of the paper, 8 after the head's convolution.

    | stage    | 1  | 2  | 3  | 4  | 5   | 6   | 7   | 8    |
    |----------|----|----|----|----|-----|-----|-----|------|
    | channels | 16 | 24 | 40 | 80 | 112 | 192 | 320 | 1280 |
    | stride   | 2  | 4  | 8  | 16 | 16  | 32  | 32  | 32   |

    With `classes` (stage 8) it is the whole classifier: logits [b classes]. With `frozen` the stem and the stages below
    that number do not learn; no gradient goes there, and nothing is kept for one.
    """

    def __init__(self, stage: int = TOP, *, classes: int | None = None, frozen: int = 0) -> None:
        super().__init__()
        if not 1 <= stage <= TOP:
            raise ConfigError("EfficientNetLite0 stage", got=stage, expected=f"1 to {TOP}")
        if classes is not None and stage != TOP:
            raise ConfigError("EfficientNetLite0 classes", got=f"stage {stage}", expected=f"stage {TOP}")
        if not 0 <= frozen <= stage:
            cure = "lower frozen, or raise stage"
            raise ConfigError("EfficientNetLite0 frozen", got=frozen, expected=f"0 to {stage}, the stage", cure=cure)
        self.stage, self.frozen = stage, frozen
        self.stem, self.stem_norm = SameConv(3, STEM, 3, stride=2), _norm(STEM)
        blocks, inside = [], STEM
        for expansion, outside, repeats, stride, kernel in STAGES[:stage]:
            for number in range(repeats):
                options = {"expansion": expansion, "stride": 1 if number else stride, "kernel": kernel}
                blocks.append(InvertedBlock(inside, outside, **options))
                inside = outside
        self.blocks = nn.ModuleList(blocks)
        self.head = SameConv(inside, HEAD, 1) if stage == TOP else None
        self.head_norm = _norm(HEAD) if stage == TOP else None
        self.classifier = None if classes is None else nn.Linear(HEAD, classes)
        self.channels = HEAD if stage == TOP else inside
        self._still = sum(repeats for _, _, repeats, _, _ in STAGES[: max(frozen - 1, 0)])  # blocks that do not learn
        for layer in [self.stem, self.stem_norm, *self.blocks[: self._still]] if frozen else []:
            layer.requires_grad_(False)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "..."]:
        """[b channels h/stride w/stride], rounded up; pictures are normalised already."""
        blocks = list(self.blocks)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            x = _relu6(normalised(images, self.stem, self.stem_norm))
            for block in blocks[: self._still]:
                x = block(x)
        for block in blocks[self._still :]:
            x = block(x)
        if self.head is not None and self.head_norm is not None:
            x = _relu6(normalised(x, self.head, self.head_norm))
        return x if self.classifier is None else self.classifier(x.mean((2, 3)))


def efficientnet_lite0(
    weights: str | PathLike[str] | None = None, *, stage: int = TOP, classes: int | None = None, frozen: int = 0
) -> Backbone:
    """EfficientNet-Lite0 as an encoder, with the published weights of a file or, without one, with random ones."""
    module = EfficientNetLite0(stage, classes=classes, frozen=frozen)
    if weights is not None:
        load_published(module, weights)
    backbone = Backbone(module, channels=module.channels, mean=_MEAN, scale=_SCALE)
    backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return backbone


def published_weights() -> Path:
    """Weights that are there: the published file below `REGARD_DATA` or in the cache, else those of the package.

    >>> published_weights().exists()
    True
    """
    return find(WEIGHTS) if is_here(WEIGHTS) else Path(str(files("regard"))) / EMBEDDED


def load_published(module: EfficientNetLite0, path: str | PathLike[str]) -> None:
    """Weights from a state dict with the names of EfficientNet-PyTorch; what lies above the stage is left out.

    The file is one that torch or safetensors has written; numbers in half precision become those of the module.
    """
    try:
        whole = load_file(path) if str(path).endswith(".safetensors") else None
        stored = torch.load(path, map_location="cpu", weights_only=True) if whole is None else whole
        renamed = {_renamed(name): tensor for name, tensor in stored.items()}
    except Exception as error:  # pickle knows no one error for a broken file
        got = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        cure = f"use the published file, {WEIGHTS.name}"
        raise RegardError(f"{path}: no weights of EfficientNet-Lite0", got=got, cure=cure) from error
    wanted = module.state_dict()
    missing = [name for name in wanted if name not in renamed]
    unlike = [name for name in wanted if name in renamed and renamed[name].shape != wanted[name].shape]
    if missing or unlike:
        got = f"no {missing[0]}" if missing else f"{unlike[0]} {list(renamed[unlike[0]].shape)}"
        expected = "weights of EfficientNet-Lite0" if missing else list(wanted[unlike[0]].shape)
        raise RegardError(f"{path}: these weights are of another network", got=got, expected=expected)
    module.load_state_dict({name: renamed[name] for name in wanted})


_PARTS = {
    "_conv_stem": "stem", "_conv_head": "head", "_fc": "classifier",
    "_expand_conv": "expand", "_depthwise_conv": "depthwise", "_project_conv": "project",
}  # fmt: skip
_NORMS = {"_bn0": "stem_norm", "_bn1": "head_norm"}
_BLOCK_NORMS = {"_bn0": "expand_norm", "_bn1": "depthwise_norm", "_bn2": "project_norm"}


def _renamed(name: str) -> str:
    """`_blocks.3._bn1.weight` → `blocks.3.depthwise_norm.weight`, and so on."""
    *path, leaf = name.split(".")
    norms = _BLOCK_NORMS if path[0] == "_blocks" else _NORMS
    if path[0] == "_blocks":
        return ".".join(["blocks", path[1], norms.get(path[2], _PARTS.get(path[2], path[2])), leaf])
    return ".".join([norms.get(path[0], _PARTS.get(path[0], path[0])), leaf])

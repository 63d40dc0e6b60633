"""Features of pictures: computed once by an encoder, kept on disk as float16, and then held on the device.

The name of a kept file is a hash of all that decides its content: the encoder's weights, the view, the pictures.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.base import RESTORE, RegardError, check_settings, followed, replacing
from regard.base.ranges import Pixels, Range, UserPath
from regard.data.captions import Captions
from regard.data.download import cache_folder
from regard.data.images import fit_image, read_image
from regard.nn.checksum import tensors_checksum
from regard.nn.efficientnet import TOP, Backbone, Patches, efficientnet_lite0, published_weights
from regard.tasks.task import Progress

FILE = "encoder.safetensors"  # in a run folder
CHUNK = 64  # pictures at a time
Stage = Annotated[int, Range(least=1, most=TOP)]
ViewSize = Annotated[int, Range(least=1, most=2**14, cure="use 224 or 320, which are usual")]
_VERSION = 2  # of what is kept: a new one makes all kept files stale


@dataclass(frozen=True)
class EncoderConfig:
    """Which encoder, and what it is shown."""

    name: Literal["efficientnet_lite0", "patches"] = "efficientnet_lite0"  # which encoder
    weights: UserPath | None = None  # a file with weights; None: the published ones, which are in the package
    stage: Stage = 8  # efficientnet_lite0: 5 is a grid of size / 16 with 112 channels, 8 of size / 32 with 1280
    size: ViewSize = 320  # pixels of the square that it sees
    whole: bool = False  # squeeze the whole picture into the square, instead of cutting out its middle
    patch: Pixels = 8  # patches: pixels of a side
    keep: bool = True  # features on disk, below the cache folder

    def __post_init__(self) -> None:
        check_settings(self, "task.encoder")


class FeatureCache:
    """Pictures in, features out. `module` is the user's own encoder, in place of the one that the config names."""

    def __init__(
        self, config: EncoderConfig, *, module: Any | None = None, folder: Path | None = None, progress: Any = None
    ) -> None:
        self.config, self.folder = config, folder
        self.progress: Progress | None = progress
        self._own = module is not None
        if module is not None:
            self.encoder = module

    @cached_property
    def encoder(self) -> Any:
        """The encoder, in evaluation mode, without gradients."""
        config = self.config
        if config.name == "patches":
            patches = Patches(config.patch)
            return Backbone(patches, channels=patches.channels, mean=0.5, scale=0.5).eval()
        stored = None if self.folder is None else self.folder / FILE
        encoder = efficientnet_lite0(None if stored else self.weights_file, stage=config.stage)
        if stored is not None:
            try:
                encoder.load_state_dict(load_file(stored))
            except (OSError, SafetensorError, RuntimeError) as error:
                what, got = f"{stored} does not hold this encoder", str(error).partition("\n")[0]
                raise RegardError(what, got=got, cure=RESTORE) from error
        return encoder.eval().requires_grad_(False)

    @property
    def weights_file(self) -> Path:
        """Where the weights are."""
        if self.config.weights is None:
            return published_weights()
        return Path(followed(self.config.weights, cure=f"restore {FILE} in the run folder"))

    @cached_property
    def identity(self) -> str | None:
        """What the encoder is, as text; None if nobody knows."""
        config = self.config
        if self._own:
            return None
        if config.name == "patches":
            return f"patches {config.patch}"
        return f"efficientnet_lite0 {tensors_checksum(self.encoder.state_dict())} {config.stage}"  # of what it holds

    def save(self, folder: Path) -> None:
        """The weights into a run folder, so that it can caption new pictures on any machine."""
        if self.config.name == "patches" or self._own:
            return
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.contiguous() for name, tensor in self.encoder.state_dict().items()}
        with replacing(folder / FILE) as unfinished:
            save_file(tensors, unfinished)

    def view(self, image: UInt8[np.ndarray, "h w 3"], *, margin: int = 0) -> UInt8[np.ndarray, "3 s s"]:
        """The square that the encoder sees, `margin` pixels larger if asked."""
        return np.ascontiguousarray(
            fit_image(image, self.config.size + margin, whole=self.config.whole).transpose(2, 0, 1)
        )

    @torch.no_grad()
    def encode(self, views: UInt8[Tensor, "b 3 s s"]) -> Float[Tensor, "b k d"]:
        """Features of views, on the device where the views are, as float16."""
        encoder = self.encoder.to(views.device) if hasattr(self.encoder, "to") else self.encoder
        images = (views.float() / 255).contiguous(memory_format=torch.channels_last)
        values: Tensor = encoder(images).values
        return values.half()

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of places."""
        side = self.config.size
        device = next((p.device for p in getattr(self.encoder, "parameters", list)()), torch.device("cpu"))
        with torch.no_grad():
            grid: tuple[int, int] = self.encoder(torch.zeros(1, 3, side, side, device=device)).grid
        return grid

    def features(self, captions: Captions, *, mirrored: bool, device: torch.device) -> Float[Tensor, "m k d"]:
        """Features of all pictures of a split, then, if asked, of their mirror images; from disk if they are there."""
        count = len(captions) * (2 if mirrored else 1)
        rows, columns = self.grid
        shape = (count, rows * columns, self.encoder.channels)

        def parts() -> Iterator[tuple[int, NDArray[Any]]]:
            for start, views in self._views(captions, "encoding pictures"):
                here = torch.from_numpy(views).to(device)
                yield start, self.encode(here).cpu().numpy()
                if mirrored:
                    yield len(captions) + start, self.encode(here.flip(-1)).cpu().numpy()

        facts = {"encoder": self.identity, "mirrored": mirrored}
        keep = self.config.keep and self.identity is not None
        return torch.from_numpy(self._kept(captions, facts, np.float16, shape, parts, keep=keep)).to(device)

    def views(self, captions: Captions, *, margin: int = 0, device: torch.device) -> UInt8[Tensor, "n 3 s s"]:
        """All pictures of a split as the encoder sees them: what fine-tuning needs."""
        side = self.config.size + margin
        shape = (len(captions), 3, side, side)

        def parts() -> Iterator[tuple[int, NDArray[Any]]]:
            return self._views(captions, "decoding pictures", margin)

        return torch.from_numpy(self._kept(captions, {}, np.uint8, shape, parts, keep=self.config.keep)).to(device)

    def _views(self, captions: Captions, what: str, margin: int = 0) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Views, some at a time, decoded by several threads."""

        def one(name: str) -> NDArray[np.uint8]:
            return self.view(read_image(captions.read(name), name=name), margin=margin)

        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            for start, names in _chunks(captions.names):
                yield start, np.stack(list(pool.map(one, names)))
                if self.progress is not None:
                    self.progress(what, start + len(names), len(captions))

    def _kept(
        self,
        captions: Captions,
        facts: dict[str, Any],
        dtype: type,
        shape: tuple[int, ...],
        parts: Callable[[], Iterable[Any]],
        *,
        keep: bool,
    ) -> NDArray[Any]:
        """An array from disk; if it is not there it is made, written beside and renamed."""
        if not keep:
            fresh: NDArray[Any] = _filled(np.empty(shape, dtype), parts())
            return fresh
        config = self.config
        facts = facts | {"version": _VERSION, "pictures": captions.signature, "shape": shape}
        facts |= {"size": config.size, "whole": config.whole, "type": dtype.__name__}
        key = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()
        path = cache_folder() / "features" / f"{key}.npy"
        if not path.exists():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as unfinished:
                    file = np.lib.format.open_memmap(unfinished, mode="w+", dtype=dtype, shape=shape)
                    _filled(file, parts()).flush()
                    del file
            except OSError as error:
                why = f"features cannot be kept ({error.strerror})"
                cure = "set REGARD_CACHE to a folder with room, or task.encoder.keep=false"
                raise RegardError(why, got=path.parent, cure=cure) from error
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="c")
        if array.shape != shape or array.dtype != dtype:
            raise RegardError(f"{path} holds something else", got=list(array.shape), cure="delete it")
        return array


def _filled(array: Any, parts: Iterable[tuple[int, NDArray[Any]]]) -> Any:
    for start, chunk in parts:
        array[start : start + len(chunk)] = chunk
    return array


def _chunks(names: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    for start in range(0, len(names), CHUNK):
        yield start, names[start : start + CHUNK]

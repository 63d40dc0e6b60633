"""Pictures from files, sound and broken ones, all made here."""

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.base import ConfigError, MissingExtra, ShapeError
from regard.data.images import MAX_PIXELS, Box, fit_box, fit_image, read_image
from regard.data.parallel import DataError

Image = pytest.importorskip("PIL.Image")
RED = (200, 30, 10)


def stored(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def claimed(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is large."""
    data = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(data)) + b"IHDR" + data + struct.pack(">I", zlib.crc32(b"IHDR" + data))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 100) + b"IDAT" + b"x" * 10


def test_a_path_bytes_and_a_file_are_the_same(tmp_path: Path) -> None:
    content = stored(Image.new("RGB", (4, 3), RED))
    path = tmp_path / "red.png"
    path.write_bytes(content)
    for source in (path, str(path), content, io.BytesIO(content)):
        image = read_image(source)
        assert image.shape == (3, 4, 3)
        assert image.dtype == np.uint8
        assert (image == RED).all()


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "JPEG"])
def test_formats(kind: str) -> None:
    image = read_image(stored(Image.new("RGB", (16, 8), RED), kind))
    assert image.shape == (8, 16, 3)
    assert np.abs(image.astype(int) - RED).max() <= 8


def test_grey_becomes_coloured() -> None:
    assert read_image(stored(Image.new("L", (1, 1), 77))).tolist() == [[[77, 77, 77]]]
    assert read_image(stored(Image.new("1", (1, 1), 1))).tolist() == [[[255, 255, 255]]]
    deep = Image.fromarray(np.full((2, 2), 0x4D00, np.uint16))
    assert (read_image(stored(deep)) == 0x4D).all()  # the upper 8 of 16 bits


def test_palettes() -> None:
    assert (read_image(stored(Image.new("RGB", (2, 2), RED).convert("P"))) > (180, -1, -1)).all()
    clear = Image.new("P", (2, 1), 0)
    clear.putpalette([*RED, 0, 0, 255])
    clear.putpixel((1, 0), 1)
    assert read_image(stored(clear, transparency=0)).tolist() == [[[255, 255, 255], [0, 0, 255]]]


def test_transparent_pictures_lie_on_white() -> None:
    picture = Image.new("RGBA", (3, 1), (*RED, 0))
    picture.putpixel((1, 0), (*RED, 255))
    picture.putpixel((2, 0), (0, 0, 0, 128))
    white, red, grey = read_image(stored(picture))[0].tolist()
    assert (white, tuple(red)) == ([255] * 3, RED)
    assert 125 <= grey[0] <= 129
    assert read_image(stored(Image.new("LA", (1, 1), (0, 0)))).tolist() == [[[255] * 3]]


def test_cmyk() -> None:
    image = read_image(stored(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"))
    assert image[4, 4, 0] > 200
    assert image[4, 4, 1:].max() < 60


def test_the_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in (RED, (0, 0, 255), (0, 255, 0))]
    for kind in ("GIF", "WEBP"):
        content = stored(frames[0], kind, save_all=True, append_images=frames[1:], duration=10)
        assert np.abs(read_image(content).astype(int) - RED).max() < 12


def test_the_rotation_of_the_camera_is_done() -> None:
    picture = Image.new("RGB", (3, 2), (0, 0, 0))
    picture.putpixel((0, 0), RED)
    noted = Image.Exif()
    noted[0x0112] = 6  # turn right
    image = read_image(stored(picture, exif=noted))
    assert image.shape == (3, 2, 3)
    assert tuple(image[0, 1]) == RED


def test_one_pixel_can_be_fitted() -> None:
    image = read_image(stored(Image.new("RGB", (1, 1), RED)))
    assert (fit_image(image, 5) == RED).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_twenty_megapixels_come_back_smaller(kind: str) -> None:
    wide = Image.new("L" if kind == "PNG" else "RGB", (5000, 4000))
    wide.paste(200 if kind == "PNG" else RED, (0, 0, 2500, 4000))
    image = read_image(stored(wide, kind))
    height, width, _ = image.shape
    assert 500_000 < height * width <= 4_000_000
    assert width / height == pytest.approx(1.25, abs=0.01)
    left, right = image[height // 2, width // 4], image[height // 2, 3 * width // 4]
    assert left[0] > 190
    assert right.max() < 10


def test_reduced_palettes() -> None:
    image = read_image(stored(Image.new("RGB", (40, 30), RED).convert("P")), enough_pixels=100)
    assert image.shape[0] * image.shape[1] <= 100
    assert (image[..., 0] > 180).all()


@pytest.mark.parametrize("size", [(10_000, 7_000), (60_000, 60_000)])
def test_larger_ones_are_refused_before_decoding(size: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=f"too large.*at most {MAX_PIXELS:,} pixels"):
        read_image(claimed(*size), name="bomb.png")
    with pytest.raises(DataError, match="10 × 10 = 0 million pixels; expected at most 99"):
        read_image(stored(Image.new("L", (10, 10))), max_pixels=99)


def test_broken_files_are_named(tmp_path: Path) -> None:
    whole = stored(Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)))
    cases = {
        "empty": (b"", "the picture is empty"),
        "cut": (whole[: len(whole) // 2], "the picture is broken"),
        "text": (b"hello, world", "this is no picture"),
        "head": (claimed(10, 10), "the picture is broken"),
    }
    for name, (content, message) in cases.items():
        path = tmp_path / f"{name}.png"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{name}.png: {message}"):
            read_image(path)
    with pytest.raises(DataError, match=r"no\.png: cannot be read: got no such file"):
        read_image(tmp_path / "no.png")
    with pytest.raises(DataError, match="cannot be read: got is a directory"):
        read_image(tmp_path)
    with pytest.raises(DataError, match="open as text"):
        read_image(io.StringIO("x"))  # type: ignore[arg-type]


def test_random_damage_is_our_error() -> None:
    chance = np.random.default_rng(1)
    picture = Image.fromarray(chance.integers(0, 255, (20, 20, 3), np.uint8))
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "TIFF"):
        content = np.frombuffer(stored(picture, kind), np.uint8)
        for _ in range(40):
            damaged = content.copy()
            damaged[chance.integers(0, len(content), 8)] = chance.integers(0, 256, 8)
            with suppress(DataError):
                assert read_image(damaged.tobytes()).ndim == 3


def test_real_numbers_without_a_scale_are_refused() -> None:
    with pytest.raises(DataError, match="broken: got pixels are real numbers"):
        read_image(stored(Image.new("F", (2, 2), 0.5), "TIFF"))


def test_fit_cuts_out_the_middle() -> None:
    image = np.zeros((10, 30, 3), np.uint8)
    image[:, 10:20] = RED
    assert fit_box(10, 30) == Box(10, 0, 20, 10)
    assert fit_box(31, 10) == Box(0, 10.5, 10, 20.5)
    assert (fit_image(image, 10) == RED).all()
    inner = fit_image(image, 20)
    assert inner.shape == (20, 20, 3)
    assert (inner[:, 4:-4] == RED).all()  # at the edge what lies beyond shines through, as when cut after resizing
    whole = fit_image(image, 12, whole=True)
    assert whole[0, 0].max() < 20
    assert np.abs(whole[:, 5:7].astype(int) - RED).max() < 10
    assert fit_box(10, 30, whole=True) == Box(0, 0, 30, 10)


def test_wrong_calls() -> None:
    with pytest.raises(ConfigError, match="fit_image size: got 0"):
        fit_image(np.zeros((2, 2, 3), np.uint8), 0)
    with pytest.raises(ConfigError, match="read_image pixels: got 0"):
        read_image(b"x", max_pixels=0)


@pytest.mark.bare
def test_colours_come_last() -> None:
    with pytest.raises(ShapeError, match=r"red, green and blue: got uint8 \[3, 4, 4\]"):
        fit_image(np.zeros((3, 4, 4), np.uint8), 2)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name="PIL")

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(MissingExtra, match=r"needs PIL.*pip install pillow, or .*'\.\[vision\]'"):
        read_image(b"x")


@pytest.mark.parametrize("kind", ["AVIF", "WEBP", "PNG", "JPEG", "GIF", "TIFF"])
def test_damage_anywhere_is_our_error(tmp_path: Path, kind: str) -> None:
    whole, random = io.BytesIO(), np.random.default_rng(0)
    try:
        Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(whole, kind)
    except (KeyError, OSError):  # a Pillow without this format
        pytest.skip(f"no {kind}")
    for place in random.integers(0, len(whole.getvalue()), 60):
        damaged = bytearray(whole.getvalue())
        damaged[place : place + 9] = random.bytes(9)
        (tmp_path / "damaged").write_bytes(damaged)
        with suppress(DataError):
            read_image(tmp_path / "damaged")


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, AssertionError, RecursionError])
def test_whatever_a_decoder_raises_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("Failed to decode frame 0:\nNo content")

    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr("regard.data.images._decoded", fail)
    with pytest.raises(
        DataError, match=r"a\.png: the picture is broken: got Failed to decode frame 0:; expected a whol"
    ):
        read_image(tmp_path / "a.png")


def test_a_file_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.images.MAX_BYTES", 1000)
    with pytest.raises(DataError, match="/dev/zero: the file is too large: got more than 1,000 bytes; expected a pict"):
        read_image("/dev/zero")
    with pytest.raises(DataError, match="cannot be read: got embedded null byte"):
        read_image("a\0b.png")

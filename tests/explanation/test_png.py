import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.base import RegardError
from regard.explanation.png import data_address, from_png, to_png


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (64, 48)])
def test_another_library_reads_what_we_write(size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    content = to_png(pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), pixels)
    assert np.array_equal(from_png(content), pixels)
    assert data_address(content).startswith("data:image/png;base64,iVBOR")


def test_smooth_pictures_pack_well():
    smooth = np.broadcast_to(np.linspace(0, 255, 300).astype(np.uint8)[:, None, None], (300, 200, 3))
    assert len(to_png(np.ascontiguousarray(smooth))) < 300 * 200 * 3 / 100


def damaged():
    good = to_png(np.zeros((4, 4, 3), dtype=np.uint8))
    other = io.BytesIO()
    Image.new("L", (4, 4)).save(other, "PNG")
    yield b"", "no PNG file"
    yield b"GIF89a" + good, "no PNG file"
    yield good[:-1], "a broken file"
    yield good[:40] + bytes([good[40] ^ 1]) + good[41:], "checksum is wrong|a broken file"
    yield good + good[8:], "a broken file"
    yield other.getvalue(), "another kind of file"
    yield claims(good, 10**9, 10**9), "1000000000 × 1000000000 pixels"
    yield claims(good, 0, 4), "4 × 0 pixels"
    yield claims(good, 5, 4), "more or fewer pixels"
    yield claims(good, 3, 4), "more or fewer pixels"
    yield with_data(good, b"not packed"), "cannot be unpacked"
    yield with_data(good, zlib.compress(bytes(10**7))), "more or fewer pixels"
    yield with_data(good, zlib.compress(bytes(4 * 13))), "another filter of lines"


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def claims(good, width, height):
    return good[:8] + chunk(b"IHDR", struct.pack(">II", width, height) + bytes([8, 2, 0, 0, 0])) + good[33:]


def with_data(good, packed):
    return good[:33] + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("content", "message"), list(damaged()))
def test_damaged_files_are_refused(content, message):
    with pytest.raises(RegardError, match=rf"the picture of an explanation cannot be read: got .*({message})"):
        from_png(content)

"""PNG files of pictures without any library: written whole, and read again where this file wrote them.

A page shows such a file as it is, so the JSON of an explanation holds its picture in this form.
"""

import base64
import struct
import zlib

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from regard.base import RegardError

MAX_PIXELS = 64_000_000  # the limit of data/images.py: a short file may claim to be a huge picture
_START = b"\x89PNG\r\n\x1a\n"
_RGB = bytes([8, 2, 0, 0, 0])  # eight bits, red, green and blue, not interlaced
_UP = 2  # the filter of every line: differences to the line above, which pack well


def to_png(image: UInt8[ndarray, "h w 3"]) -> bytes:
    """The bytes of a PNG file of a picture.

    >>> to_png(np.zeros((2, 3, 3), dtype=np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    height, width = image.shape[:2]
    lines = image.reshape(height, -1)
    differences = np.diff(lines, axis=0, prepend=np.zeros((1, lines.shape[1]), dtype=np.uint8))
    filtered = np.concatenate([np.full((height, 1), _UP, dtype=np.uint8), differences], axis=1)
    header = struct.pack(">II", width, height) + _RGB
    return (
        _START + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 9)) + _chunk(b"IEND", b"")
    )


def from_png(content: bytes) -> UInt8[ndarray, "h w 3"]:
    """The picture of a file that `to_png` wrote; any other file is refused.

    >>> from_png(to_png(np.full((1, 2, 3), 7, dtype=np.uint8))).tolist()
    [[[7, 7, 7], [7, 7, 7]]]
    """
    chunks = _chunks(content)
    header, packed = chunks.get(b"IHDR", b""), chunks.get(b"IDAT", b"")
    if len(header) != 13 or header[8:] != _RGB or list(chunks) != [b"IHDR", b"IDAT", b"IEND"]:
        raise _damaged("another kind of file")
    width, height = struct.unpack(">II", header[:8])
    if not 0 < width * height <= MAX_PIXELS:
        raise _damaged(f"{height} × {width} pixels")
    size = height * (3 * width + 1)
    reader = zlib.decompressobj()
    try:
        filtered = reader.decompress(packed, size + 1)
    except zlib.error as error:
        raise _damaged(f"pixels that cannot be unpacked ({error})") from None
    if len(filtered) != size:
        raise _damaged("more or fewer pixels than its header says")
    lines = np.frombuffer(filtered, dtype=np.uint8).reshape(height, -1)
    if (lines[:, 0] != _UP).any():
        raise _damaged("another filter of lines")
    pixels: ndarray = np.cumsum(lines[:, 1:], axis=0, dtype=np.uint8)  # wraps around, as the differences did
    return pixels.reshape(height, width, 3)


def data_address(content: bytes) -> str:
    """A PNG file as an address, for pages that need no other file."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _chunks(content: bytes) -> dict[bytes, bytes]:
    """The chunks of a file by name, each of which comes once."""
    if not content.startswith(_START):
        raise _damaged("no PNG file")
    chunks: dict[bytes, bytes] = {}
    place = len(_START)
    while place < len(content):
        head = content[place : place + 8]
        length = struct.unpack(">I", head[:4])[0] if len(head) == 8 else -1
        body, end = content[place + 8 : place + 8 + length], place + 12 + length
        if length < 0 or end > len(content) or head[4:] in chunks:
            raise _damaged("a broken file")
        if content[end - 4 : end] != struct.pack(">I", zlib.crc32(head[4:] + body)):
            raise _damaged("a file whose checksum is wrong")
        chunks[head[4:]] = body
        place = end
    return chunks


def _damaged(got: str) -> RegardError:
    return RegardError("the picture of an explanation cannot be read", got=got, expected="a PNG that to_json wrote")

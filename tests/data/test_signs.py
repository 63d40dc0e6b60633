"""Signs: words that lie apart, inside, and where their boxes say."""

import pytest
import torch

from regard.base import ConfigError
from regard.data import Lettering, Signs, Weather, draw_signs
from regard.data.words import encode_words
from regard.datasets.typefaces import typefaces

CALM = Weather(texture=0.0, blur=0.0, noise=0.0, coarse=0.0, contrast=0.0)


def test_words_lie_apart_and_in_their_boxes() -> None:
    glyphs = typefaces().take(["DejaVu Sans Bold"])
    words = encode_words(["sign", "exit", "bar"], 6).repeat(8, 2, 1).view(8, 6, 6)
    style = Lettering(curved=0.0, marks=0.0)
    signs = Signs(size=96, words=6, lowest=12, highest=24)
    drawn = draw_signs(words, glyphs, style, signs, CALM, generator=torch.Generator().manual_seed(0))
    again = draw_signs(words, glyphs, style, signs, CALM, generator=torch.Generator().manual_seed(0))
    assert drawn.images.equal(again.images)
    assert drawn.visible.sum(1).min() >= 1
    assert drawn.visible.float().mean() < 1  # six words do not fit
    for boxes, visible, image in zip(drawn.boxes, drawn.visible, drawn.images, strict=True):
        shown = boxes[visible].tolist()
        for number, (top, left, height, width) in enumerate(shown):
            assert 0 <= top <= 96 - height + 1e-3
            assert 0 <= left <= 96 - width + 1e-3
            inside = image[0, int(top) : int(top + height) + 1, int(left) : int(left + width) + 1]
            assert inside.std() > 0.02  # there is ink
            for other in shown[:number]:
                assert (
                    left + width < other[1]
                    or other[1] + other[3] < left
                    or (top + height < other[0] or other[0] + other[2] < top)
                )


def test_sizes_of_signs() -> None:
    with pytest.raises(ConfigError, match="the sizes of signs: got size=100"):
        Signs(size=100)

"""What a pixel saw and looked at, laid over the picture: the same as the weights of the layer, place by place."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.base import ConfigError
from regard.models import ImageTransformer, ImageTransformerConfig
from regard.tasks.drawn_pictures import DrawingSettings, blocks_of, known_places

CONFIG = ImageTransformerConfig(
    image_size=8, channels=3, dim=8, num_heads=2, hidden_dim=8, layers=2, query_block=40, memory_block=20, mixtures=2,
    block_size=(4, 2), memory_size=(2, 1),
)  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"local": "2d"}, {"output": "logistics", "local": "2d"}], ids=str)
def test_weights_belong_to_the_symbols_that_were_taken_in(changes: dict[str, str]) -> None:
    torch.manual_seed(0)
    model = ImageTransformer(replace(CONFIG, **changes)).eval()
    image = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
    [blocks] = blocks_of(model, image, {}, DrawingSettings(layer=0, head=1))
    inside = model.config.places // 64
    with torch.no_grad(), trace(model, layers="layers.0.*") as seen:
        model(image)
    weights = seen["layers.0.inner.inner"].weights[0, 1]  # [n n]
    order = model.order.tolist()
    for number, (row, column) in enumerate(blocks.points.astype(int).tolist()):
        place = order.index((8 * row + column) * inside)
        expected, block = np.zeros((8, 8)), np.zeros((8, 8))
        for key in range(1, place + 1):
            pixel = divmod(order[key - 1] // inside, 8)  # a place takes in the symbol before it
            expected[pixel] += weights[place, key]
            block[pixel] = max(block[pixel], model.local.mask().dense(place + 1, place + 1)[-1, key])
        np.testing.assert_allclose(blocks.weights[number], expected, atol=1e-6)
        assert np.array_equal(blocks.seen[number], block)
    assert len(blocks_of(model, image, {}, DrawingSettings(), all_layers=True)) == 2
    assert "layers.0, head 1" in blocks.title
    with pytest.raises(ConfigError, match="layer: got 2; expected -2 to 1"):
        blocks_of(model, image, {}, DrawingSettings(layer=2))
    with pytest.raises(ConfigError, match="head: got 2; expected 0 to 1"):
        blocks_of(model, image, {}, DrawingSettings(head=2))


def test_a_share_of_a_picture_is_whole_rows() -> None:
    rows, blocks = (ImageTransformer(replace(CONFIG, local=local)) for local in ("1d", "2d"))
    assert [known_places(rows, share) for share in (0.0, 0.5, 0.625, 1.0)] == [0, 96, 120, 192]
    assert [known_places(blocks, share) for share in (0.0, 0.5, 1.0)] == [0, 96, 192]
    assert known_places(blocks, 0.625) == 96 + 6  # the first row of the first block of the lower half

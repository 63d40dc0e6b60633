"""Readers of words: steps equal the whole, padding does not matter, weights are weights, any score and alignment."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.align import ALIGNS
from regard.attention import trace
from regard.base import ConfigError
from regard.data import BOS, EOS
from regard.decode import greedy
from regard.models import SceneText, SceneTextConfig, scene_text_2d, scene_text_base

SMALL = SceneTextConfig(
    vocabulary=9, height=16, width=32, channels=2, blocks=(1, 1, 1, 1), hidden_dim=6, layers=1, embed_dim=3,
    align_dim=5, control_points=6, dropout=0.0,
)  # fmt: skip
KINDS = {
    "1-D": SMALL,
    "1-D, two layers, no spline": replace(SMALL, layers=2, rectify=False),
    "2-D": replace(SMALL, decoder="attention_2d", rectify=False, layers=2),
    "CTC": replace(SMALL, decoder="ctc", rectify=False),
}  # fmt: skip


def reader(config: SceneTextConfig) -> SceneText:
    return SceneText(config).double().eval()


def pictures(batch: int = 3) -> torch.Tensor:
    return torch.randn(batch, 1, 16, 32, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["1-D", "1-D, two layers, no spline", "2-D"])
def test_letter_by_letter_equals_all_at_once(kind: str) -> None:
    model, images, letters = reader(KINDS[kind]), pictures(), torch.randint(0, 9, (3, 5))
    widths = None if model.config.rectify else torch.tensor([32, 19, 8])
    out = model(images, letters, widths, need_weights=True)
    state, logits, weights = model.init_state(model.encode(images, widths)), [], []
    for step in range(5):
        said = model.step(letters[:, step], state)
        state = said.state
        logits.append(said.logits)
        weights.append(said.weights)
    torch.testing.assert_close(torch.stack(logits, 1), out.logits)
    torch.testing.assert_close(torch.stack(weights, 1), out.weights)
    torch.testing.assert_close(out.weights.sum(-1), torch.ones(3, 5, dtype=torch.float64))
    if widths is not None:
        rows, columns = model.grid
        maps = out.weights.view(3, 5, rows, columns)
        for row, width in enumerate(widths.tolist()):
            assert (maps[row, ..., (width + 3) // 4 :] == 0).all()  # nothing on padding
    torch.testing.assert_close(model(images, letters, widths).logits, out.logits)  # without weights, perhaps fused


@pytest.mark.parametrize("kind", ["1-D, two layers, no spline", "2-D", "CTC"])
def test_more_padding_changes_nothing_for_the_decoder(kind: str) -> None:
    """The features of real columns given, what lies behind them does not reach a single logit."""
    model, letters = reader(KINDS[kind]), torch.randint(0, 9, (2, 4))
    images, widths = pictures(2), torch.tensor([16, 16])
    seen = model.features(images)

    class Fixed(torch.nn.Module):
        def __init__(self, features: torch.Tensor) -> None:
            super().__init__()
            self.features = features

        def forward(self, _: Any) -> torch.Tensor:
            return self.features

    logits = []
    for noise in (0.0, 5.0):
        model.features = Fixed(torch.cat([seen[..., :4], seen[..., 4:] + noise], -1))  # type: ignore[assignment]
        out = model(images, letters, widths)
        logits.append(out.logits if out.lengths is None else out.logits[:, :4])
    torch.testing.assert_close(logits[0], logits[1])


def test_a_trace_sees_every_look_and_decoding_stops_at_the_end() -> None:
    for kind in ("1-D", "2-D"):
        model, images = reader(KINDS[kind]), pictures(2)
        with trace(model) as seen:
            model(images, torch.randint(0, 9, (2, 4)))
        assert list(seen) == ["attention"]
        assert seen["attention"].weights.shape[-1] == model.grid[0] * model.grid[1]
        model.to_logits.bias.data[EOS] += 100.0
        [one, _] = greedy(model, model.init_state(model.encode(images)), batch=2, bos=BOS, eos=EOS, max_steps=9)
        assert one.tokens == []
        assert one.finished


def test_any_score_and_alignment() -> None:
    images, letters = pictures(2), torch.randint(0, 9, (2, 3))
    for score in ("dot", "general", "concat", "cosine", "location_aware"):
        model = reader(replace(SMALL, score=score, rectify=False))
        assert model(images, letters).logits.isfinite().all()
    for align in ALIGNS:
        config = replace(SMALL, align=align, rectify=False)
        assert reader(config)(images, letters).logits.isfinite().all(), align
    with pytest.raises(ConfigError, match="looks with all letters at once: got score=location_aware"):
        SceneText(replace(KINDS["2-D"], score="location_aware"))


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match=r"needs no spline: got rectify=true\. Try: set model\.rectify=false"):
        SceneText(replace(KINDS["2-D"], rectify=True))
    with pytest.raises(ConfigError, match="16 divides the height"):
        SceneTextConfig(height=20)
    with pytest.raises(ConfigError, match=r"model\.blocks: got \(1, 1\)"):
        SceneTextConfig(blocks=(1, 1))


def test_sizes_and_gradients() -> None:
    for config, millions in ((scene_text_base(), (18, 20)), (scene_text_2d(), (15, 17))):
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in SceneText(replace(config, vocabulary=40)).parameters())
        assert millions[0] < count / 1e6 < millions[1]
    for kind, config in KINDS.items():
        model = SceneText(config)
        model(pictures(4).float(), torch.randint(0, 9, (4, 3))).logits.square().sum().backward()
        without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
        assert without == [], kind

"""The Video Action Transformer: its equations by hand, and what a query may and may not see."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.align import ALIGNS
from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.models import VideoAction, VideoActionConfig, video_action_paper
from regard.models.video_action import ActionNetwork, TxHead, TxUnit, cell_coordinates
from regard.score import SCORES

SMALL = VideoActionConfig(channels=2, classes=4, trunk=(4, 6), dim=8, heads=2, layers=2, hidden_dim=12, roi_size=2,
                          location_dim=3, dropout=0.0)  # fmt: skip


def network(**changes: object) -> ActionNetwork:
    torch.manual_seed(3)
    built = ActionNetwork(replace(SMALL, **changes)).double().eval()
    for module in built.modules():  # statistics of batches as after a training
        if isinstance(module, torch.nn.BatchNorm3d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return built


def inputs(seed: int = 0, persons: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    clips = torch.rand(2, 2, 4, 16, 24, generator=generator, dtype=torch.float64)
    corners = torch.rand(2, persons, 2, 2, generator=generator, dtype=torch.float64).sort(2).values
    return clips, corners.flatten(2)


def test_a_unit_is_equations_one_to_four() -> None:
    torch.manual_seed(0)
    unit = TxUnit(5, SMALL).double()
    query, cells = torch.randn(2, 3, 8).double(), torch.randn(2, 7, 5).double()
    mask = torch.rand(2, 1, 7) < 0.7
    mask[0] = False  # nothing to see: the query goes on as it is
    layer = unit.attention
    heads = []
    for head in range(2):
        rows = slice(8 * head, 8 * head + 8)
        asked, keys, values = (
            F.linear(x, part.weight[rows], part.bias[rows])
            for x, part in ((query, layer.to_query), (cells, layer.to_keys), (cells, layer.to_values))
        )
        weights = torch.zeros(2, 3, 7).double()
        for clip in range(2):
            seen = mask[clip, 0].nonzero().flatten()
            if len(seen):
                scores = asked[clip] @ keys[clip, seen].T / 8**0.5  # (1)
                weights[clip][:, seen] = scores.softmax(-1)
        heads.append(weights @ values)  # (2)
    attended = layer.to_output(torch.cat(heads, -1))
    middle = F.layer_norm(query + attended, (8,), unit.norm.weight, unit.norm.bias)  # (3)
    wide, narrow = unit.feed_forward.widen, unit.feed_forward.narrow
    expected = F.layer_norm(middle + narrow(torch.relu(wide(middle))), (8,), unit.last_norm.weight, unit.last_norm.bias)
    torch.testing.assert_close(unit(query, cells, mask), expected)


@pytest.mark.parametrize("head", ["tx", "roi", "i3d"])
@pytest.mark.parametrize("locations", ["absolute", "relative", "none"])
def test_persons_do_not_see_each_others_boxes(head: str, locations: str) -> None:
    model, (clips, boxes) = network(head=head, locations=locations), inputs()
    whole = model(clips, boxes).logits
    for kept in ([1], [2, 0], [0, 1, 2, 1]):
        torch.testing.assert_close(model(clips, boxes[:, kept]).logits, whole[:, kept])


def test_what_another_person_does_is_seen_by_attention_alone() -> None:
    """Pixels far from the box change the Tx head; the RoI head does not see them, nor does the I3D head."""
    clips, _ = inputs()
    clips = clips.repeat(1, 1, 1, 1, 3)  # 72 columns
    boxes = torch.tensor([[[0.05, 0.2, 0.15, 0.8]]] * 2).double()
    changed = clips.clone()
    changed[..., 50:] = 1 - changed[..., 50:]
    for head, sees in (("tx", True), ("roi", False), ("i3d", False)):
        model = network(head=head)
        same = torch.allclose(model(clips, boxes).logits, model(changed, boxes).logits, atol=1e-12, rtol=0)
        assert same is not sees, head


def test_even_attention_is_the_mean_of_the_values() -> None:
    """A query of zeros finds all cells alike: the unit adds the mean of V over the whole clip."""
    torch.manual_seed(1)
    unit = TxUnit(5, SMALL).double()
    with torch.no_grad():
        unit.attention.to_query.weight.zero_()
    query, cells = torch.randn(2, 3, 8).double(), torch.randn(2, 7, 5).double()
    values = unit.attention.to_values(cells).mean(1, keepdim=True)
    middle = unit.norm(query + unit.attention.to_output(values))
    torch.testing.assert_close(unit(query, cells, None), unit.last_norm(middle + unit.feed_forward(middle)))


@pytest.mark.parametrize(("locations", "same"), [("relative", True), ("absolute", False), ("none", True)])
def test_moving_everything_by_a_cell(locations: str, same: bool) -> None:
    """Features, boxes and what may be seen move together: relative locations do not notice, absolute ones do."""
    torch.manual_seed(2)
    head = TxHead(6, replace(SMALL, locations=locations), layers=2).double().eval()
    features = torch.zeros(1, 3, 6, 8, 6).double()
    features[:, :, 1:4, 1:6] = torch.randn(1, 3, 3, 5, 6).double()
    mask = torch.zeros(1, 3, 6, 8, dtype=torch.bool)
    mask[:, :, 1:4, 1:6] = True
    boxes = torch.tensor([[[1.5 / 8, 1.2 / 6, 4.2 / 8, 3.5 / 6]]]).double()
    moved = boxes + torch.tensor([1 / 8, 2 / 6, 1 / 8, 2 / 6])
    before = head(features, boxes, mask)
    after = head(features.roll((2, 1), (2, 3)), moved, mask.roll((2, 1), (2, 3)))
    assert torch.allclose(before, after, atol=1e-10) is same


def test_coordinates_are_middles_of_cells_in_the_order_of_the_map() -> None:
    grid = (2, 3, 4)
    coordinates = cell_coordinates(grid).view(*grid, 3)
    assert coordinates[1, 2, 3].tolist() == pytest.approx([0.5, 2 / 3, 0.75])
    assert coordinates[0, :, 0, 1].tolist() == pytest.approx([-2 / 3, 0, 2 / 3])
    assert coordinates.sum().abs() < 1e-5


def test_where_a_query_looks_is_where_the_difference_is() -> None:
    """The gradient of a person's logits with respect to the map is zero where its weights are zero."""
    model, (clips, boxes) = network(align="sparsemax"), inputs()
    with torch.no_grad():
        for layer in model.head.layers:
            layer.attention.to_query.weight *= 30  # sharp
    features = model.trunk(clips).detach().requires_grad_()
    with trace(model) as seen:
        logits = model.head(features, boxes[:, :1])
    [gradient] = torch.autograd.grad(logits[0].sum(), features)
    looked = sum(torch.as_tensor(record.weights[0]).sum((0, 1)) for record in seen.values())
    slices = gradient[0].abs().sum(-1).flatten()
    slices = slices.view(features.shape[1], -1)
    away = looked.view(features.shape[1], -1) == 0
    away[features.shape[1] // 2] = False  # the box itself is pooled from the middle slice
    assert away.any()
    assert slices[away].max() == 0
    assert slices.max() > 0


def test_every_score_and_alignment_takes_part_and_is_traced() -> None:
    clips, boxes = inputs(persons=2)
    for score in SCORES:
        if not SCORES[score].needs and score != "projected":  # which is built around another score
            _looks(network(score=score), clips, boxes)
    for align in ("sparsemax", "entmax", "sigmoid", "topk", "hard"):
        if align in ALIGNS:
            _looks(network(align=align, locations="relative"), clips, boxes)


def _looks(model: ActionNetwork, clips: Tensor, boxes: Tensor) -> None:
    with trace(model) as seen:
        acted = model(clips.float().double(), boxes)
    cells = acted.grid[0] * acted.grid[1] * acted.grid[2]
    assert acted.logits.isfinite().all()
    assert len(seen) == 2
    for record in seen.values():
        assert record.weights.shape in ((2, 2, 2, cells), (2, 2, 2, 1, cells))


def test_networks_side_by_side() -> None:
    torch.manual_seed(4)
    model, (clips, boxes) = VideoAction(replace(SMALL, members=3)).double().eval(), inputs()
    each = [model(clips, boxes, member).logits for member in range(3)]
    assert not torch.allclose(each[0], each[1])
    torch.testing.assert_close(model(clips, boxes).logits, torch.stack(each).mean(0))
    model(clips, boxes, 1).logits.sum().backward()
    touched = {name.split(".")[1] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert touched == {"1"}


def test_sizes_of_the_paper_and_twins() -> None:
    paper = video_action_paper()
    assert (paper.heads, paper.layers, paper.dim, paper.roi_size, paper.dropout) == (2, 3, 128, 7, 0.3)
    unit = TxUnit(96, paper)
    assert unit.attention.to_keys.weight.shape == (2 * 128, 96)  # each head has the width of a query
    assert not any("attention" in name for name, _ in network(head="roi").named_modules())
    low, high = network(query="low").head.to_query, network(query="high").head.to_query
    assert low.narrow is None
    assert high.project.in_features == 4 * high.narrow.out_features
    clips, _ = inputs()
    features = network().trunk(clips)
    assert features.shape == (2, 2, 4, 6, 6)  # half the frames, a quarter of each side


def test_what_does_not_fit() -> None:
    model, (clips, boxes) = VideoAction(SMALL).double(), inputs()
    with pytest.raises(ShapeError, match=r"clips: got \[2, 1, 4, 16, 24\]; expected \[b 2 t h w\]"):
        model(clips[:, :1], boxes)
    with pytest.raises(ConfigError, match=r"model\.trunk: got no channels"):
        VideoActionConfig(trunk=())
    with pytest.raises(ConfigError, match="unknown score: got 'dots'"):
        VideoActionConfig(score="dots")

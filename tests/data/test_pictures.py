"""Pictures and rows: whole epochs, exact positions, crops that are crops, turns that are turns."""

import pytest
import torch
import torch.nn.functional as F

from regard.base import ConfigError, ShapeError
from regard.data.parallel import DataError
from regard.data.pictures import (
    IGNORE,
    Pictures,
    RowBatches,
    Rows,
    centre_crops,
    random_crops,
    random_erasures,
    random_turns,
)


def pictures(size: int = 5) -> Pictures:
    images = torch.arange(size * 3 * 4 * 6, dtype=torch.int64).remainder(256).to(torch.uint8).view(size, 3, 4, 6)
    return Pictures(images, torch.arange(size) % 2, ("cat", "dog"))


def test_parts() -> None:
    some = pictures()
    assert (some.size, some.channels) == (5, 3)
    assert [some.name(label) for label in some.labels] == ["cat", "dog", "cat", "dog", "cat"]
    assert some.name(IGNORE) == ""
    two = some.take(torch.tensor([3, 0]))
    assert two.images.equal(some.images[[3, 0]])
    assert two.labels.tolist() == [1, 0]
    assert two.classes == some.classes
    assert two.to("cpu").images.equal(two.images)


def test_wrong_tensors() -> None:
    images = torch.zeros(2, 1, 3, 3, dtype=torch.uint8)
    with pytest.raises(
        ShapeError, match=r"Pictures images: got torch.float32 \[2, 1, 3, 3\]; expected uint8 \[n c h w\]"
    ):
        Pictures(images.float(), torch.zeros(2), ())
    with pytest.raises(ShapeError, match=r"Pictures labels: got \[3\]; expected \[2\] or \[2 s\]"):
        Pictures(images, torch.zeros(3), ())


@pytest.mark.parametrize(("size", "batch_size"), [(10, 4), (3, 7), (8, 8)])
def test_epochs_are_whole(size: int, batch_size: int) -> None:
    batches = RowBatches(size, batch_size=batch_size, seed=3)
    rows = torch.cat([next(batches).rows for _ in range(6)])
    assert len(rows) == 6 * batch_size  # every batch is full
    epochs = rows[: len(rows) // size * size].view(-1, size)
    assert epochs.sort(1).values.equal(torch.arange(size).expand_as(epochs))
    assert len({tuple(epoch) for epoch in epochs.tolist()}) > 1  # each in an order of its own


def test_ranks_share_a_batch() -> None:
    alone = RowBatches(20, batch_size=6, seed=1)
    ranks = [RowBatches(20, batch_size=6, seed=1, rank=rank, world=2) for rank in (0, 1)]
    for _ in range(5):
        whole, parts = next(alone).rows, [next(rank).rows for rank in ranks]
        assert torch.stack(parts, 1).flatten().equal(whole)


def test_position_is_exact() -> None:
    batches = RowBatches(7, batch_size=4, seed=5)
    for _ in range(6):
        next(batches)
    state = batches.state_dict()
    expected = [next(batches).rows.tolist() for _ in range(6)]
    other = RowBatches(7, batch_size=4, seed=0)
    other.load_state_dict(state)
    assert [next(other).rows.tolist() for _ in range(6)] == expected
    batches.load_state_dict(state)  # back
    assert [next(batches).rows.tolist() for _ in range(6)] == expected


def test_a_state_of_other_batches() -> None:
    batches = RowBatches(7, batch_size=4)
    with pytest.raises(DataError, match="not the state of RowBatches"):
        batches.load_state_dict({"position": 3})
    with pytest.raises(DataError, match=r"other batches \(batch_size\): got 5; expected 4"):
        batches.load_state_dict(RowBatches(7, batch_size=5).state_dict())


def test_wrong_settings() -> None:
    with pytest.raises(ConfigError, match=r"batch_size: got 1; expected at least 2\. .*counts the rows of all ranks"):
        RowBatches(7, batch_size=1, world=2)
    with pytest.raises(ConfigError, match="rank 2 of 2"):
        RowBatches(7, batch_size=4, rank=2, world=2)
    with pytest.raises(ConfigError, match="seed: got -1"):
        RowBatches(7, batch_size=4, seed=-1)
    with pytest.raises(DataError, match="no rows to make batches of: got 0"):
        RowBatches(0, batch_size=4)


def test_rows_are_a_batch() -> None:
    batch = Rows(torch.tensor([4, 2]))
    assert batch.count == 2
    other = batch.with_tensors({"rows": torch.tensor([1, 1])})
    assert other.tensors()["rows"].tolist() == [1, 1]


def test_random_crops_are_crops() -> None:
    some = pictures(40).images
    crops = random_crops(some, 4, pad=2, mirror=True)
    padded = F.pad(some, (2, 2, 2, 2))
    windows = padded.unfold(2, 4, 1).unfold(3, 4, 1)  # [b c y x 4 4]
    either = torch.stack([windows, windows.flip(-1)])
    hits = (either == crops[:, :, None, None]).all(-1).all(-1).all(2)  # [2 b y x]
    assert hits.flatten(2).any(-1).any(0).all(), "a crop is nowhere in its picture"
    only = hits.flatten(2).any(-1)
    assert only[0].any(), "none is as it was"
    assert only[1].any(), "none is mirrored"
    assert hits.any(0).any(0).sum() > 10, "always the same place"


def test_plain_crops_are_not_mirrored() -> None:
    some = pictures().images
    assert random_crops(some[..., :4], 4).equal(some[..., :4])
    assert centre_crops(some, 2).equal(some[..., 1:3, 2:4])


def test_a_crop_must_fit() -> None:
    with pytest.raises(ConfigError, match="side of a crop: got 5 of 4×6; expected 1 to 4"):
        centre_crops(pictures().images, 5)
    with pytest.raises(ConfigError, match="side of a crop: got 7 of 6×8"):
        random_crops(pictures().images, 7, pad=1)


def blobs(count: int, size: int = 24) -> torch.Tensor:
    """Soft spots in the middle, twice as wide as high: nothing of them reaches the border."""
    place = torch.arange(size) - (size - 1) / 2
    levels = 200 * torch.exp(-((place.unsqueeze(1) / 2) ** 2) / 2 - (place / 4) ** 2 / 2)
    return levels.round().to(torch.uint8).expand(count, 1, size, size).contiguous()


def test_no_turn_is_no_change() -> None:
    some = torch.randint(0, 256, (3, 2, 5, 7), dtype=torch.uint8)
    assert random_turns(some).equal(some)


def always(monkeypatch: pytest.MonkeyPatch, *chances: float) -> None:
    """What is drawn for each picture: the angle, then the stretch in x and in y."""
    monkeypatch.setattr(torch, "rand", lambda count, _, device: torch.tensor(chances).expand(count, -1))


def test_a_quarter_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    some = torch.randint(0, 256, (2, 3, 7, 7), dtype=torch.uint8)
    always(monkeypatch, 1.0, 0.5, 0.5)
    turned = random_turns(some, turn=90.0)
    assert turned.equal(some.rot90(1, (2, 3)))
    always(monkeypatch, 0.0, 0.5, 0.5)
    assert random_turns(some, turn=90.0).equal(some.rot90(-1, (2, 3)))
    wide = torch.zeros(2, 3, 7, 11, dtype=torch.uint8)
    wide[..., 2:9] = some  # a square in the middle turns as it does alone
    assert random_turns(wide, turn=90.0)[..., 2:9].equal(some.rot90(-1, (2, 3)))


def test_stretched_in_x_and_in_y(monkeypatch: pytest.MonkeyPatch) -> None:
    some = torch.zeros(1, 1, 40, 40, dtype=torch.uint8)
    some[:, :, 10:30, 10:30] = 200
    always(monkeypatch, 0.5, 1.0, 0.0)  # no turn; the widest, the lowest
    bright = random_turns(some, stretch=0.5)[0, 0] > 100
    assert bright.any(0).sum() == 30
    assert bright.any(1).sum() == 10


@pytest.mark.parametrize("options", [{"turn": 180.0}, {"stretch": 0.2}, {"turn": 20.0, "stretch": 0.1}], ids=str)
def test_turned_pictures(options: dict[str, float]) -> None:
    some = blobs(12)
    turned = random_turns(some, **options)
    assert turned.dtype == torch.uint8
    assert turned.shape == some.shape
    assert len({tuple(picture.flatten().tolist()) for picture in turned}) == 12, "pictures share a turn"
    before, after = some.double().sum((1, 2, 3)), turned.double().sum((1, 2, 3))
    share = (1 + options.get("stretch", 0.0)) ** 2  # how much larger it may have become
    assert (after < before * share * 1.02).all()
    assert (after > before * (2 - share**0.5) ** 2 * 0.98).all()
    torch.manual_seed(4)
    first = random_turns(some, **options)
    torch.manual_seed(4)
    assert random_turns(some, **options).equal(first)
    assert not random_turns(some, **options).equal(first)


def test_what_comes_in_at_the_sides_is_black() -> None:
    white = torch.full((20, 1, 9, 9), 255, dtype=torch.uint8)
    turned = random_turns(white, turn=45.0)
    assert (turned[..., 4, 4] == 255).all()
    assert (turned[..., 0, 0] == 0).any()


def test_erased_is_one_square() -> None:
    whole = torch.rand(400, 3, 9, 12) + 1
    erased = random_erasures(whole, 4)
    gone = erased == 0
    assert torch.equal(erased[~gone], whole[~gone])
    assert torch.equal(gone[:, 0], gone[:, 2])
    rows, columns = gone[:, 0].any(2), gone[:, 0].any(1)
    assert torch.equal(gone[:, 0], rows.unsqueeze(2) & columns.unsqueeze(1))
    assert set(rows.sum(1).tolist()) == set(columns.sum(1).tolist()) == {2, 3, 4}  # fewer at the border
    steps = rows.int().diff(dim=1).abs().sum(1)
    assert steps.max() == 2, "not in one piece"
    assert rows.float().mean(0).min() > 0, "a row that is never gone"
    assert len({tuple(row.tolist()) for row in torch.cat([rows, columns], 1)}) > 60, "pictures share a square"

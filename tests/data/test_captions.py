"""Captions: words, folders of one's own, sound and broken; batches with those of a picture together, few shapes."""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.base import ConfigError
from regard.data import BOS, EOS, PAD, Pair, TokenBatch
from regard.data.captions import CaptionBatches, Captions, Zip, caption_tokens, read_captions, split_captions
from regard.data.parallel import DataError


def pairs(pictures: int = 23, *, seed: int = 0) -> list[Pair]:
    """One to five captions a picture, mixed; each tells which it is by its first word."""
    random = np.random.default_rng(seed)
    found: list[Pair] = []
    for picture in range(pictures):
        for _ in range(1 + picture % 5):
            found.append(([100 + picture], [1000 + len(found)] + [7] * int(random.integers(0, 20))))
    return [found[number] for number in random.permutation(len(found))]


def one_epoch(batches: CaptionBatches) -> list[TokenBatch]:
    return list(islice(batches, batches.epoch_length()))


def test_captions_of_a_picture_stand_together() -> None:
    given = pairs()
    batches = CaptionBatches(given, batch_size=17, captions=3)
    for batch in one_epoch(batches):
        assert len(batch) % 3 == 0
        assert len(batch) <= 15
        groups = batch.source[:, 0].view(-1, 3)
        assert (groups == groups[:, :1]).all()
        for row, index in enumerate(batch.indices):
            source, target = given[index]
            length = len(target) + 1
            assert batch.source[row].tolist() == list(source)
            assert batch.inputs[row, :length].tolist() == [BOS, *target]
            assert batch.targets[row, :length].tolist() == [*target, EOS]
            assert (batch.targets[row, length:] == PAD).all()
        assert batch.count == sum(len(given[index][1]) + 1 for index in batch.indices)


def test_each_picture_once_and_captions_anew() -> None:
    given = pairs()
    batches = CaptionBatches(given, batch_size=12, captions=3)
    counts = Counter(source[0] for source, _ in given)
    drawn: dict[int, set[frozenset[int]]] = {}
    for _ in range(6):
        epoch = one_epoch(batches)
        pictures = Counter(number for batch in epoch for number in batch.source[::3, 0].tolist())
        assert pictures == Counter(counts.keys())
        sizes = {len(batch) for batch in epoch}
        assert sizes <= {9, 12}  # 23 pictures in 6 batches: none is tiny
        for batch in epoch:
            for place in range(0, len(batch), 3):
                picture = int(batch.source[place, 0])
                chosen = Counter(batch.indices[place : place + 3])
                assert len(chosen) == min(3, counts[picture])  # no caption twice while another waits
                drawn.setdefault(picture, set()).add(frozenset(chosen))
    assert all(len(drawn[picture]) > 1 for picture in drawn if counts[picture] > 3)
    assert all(len(drawn[picture]) == 1 for picture in drawn if counts[picture] <= 3)


def test_epochs_differ_and_seeds_decide() -> None:
    batches, again, other = (CaptionBatches(pairs(), batch_size=8, captions=2, seed=seed) for seed in (1, 1, 2))
    first, second = one_epoch(batches), one_epoch(batches)
    assert [batch.indices for batch in one_epoch(again)] == [batch.indices for batch in first]
    for another in (second, one_epoch(other)):
        groups = [{frozenset(batch.source[:, 0].tolist()) for batch in each} for each in (first, another)]
        assert groups[0] != groups[1]


def test_like_lengths_share_a_batch() -> None:
    random = np.random.default_rng(0)
    given: list[Pair] = [([n // 5], [7] * int(length)) for n, length in enumerate(random.normal(11, 4, 3000).clip(3))]
    batches = CaptionBatches(given, batch_size=100, captions=5)
    epoch = one_epoch(batches)
    places = sum(batch.targets.numel() for batch in epoch)
    real = sum(batch.count for batch in epoch)
    longest = sum(5 * int(batch.target_lengths.view(-1, 5).amax(1).sum()) for batch in epoch)
    assert real / places > 0.95 * real / longest  # what the captions of one picture need is nearly all the padding
    widths = [batch.targets.shape[1] for batch in epoch]
    assert widths not in (sorted(widths), sorted(widths, reverse=True))  # and batches are shuffled


def test_fitted_batches_are_full() -> None:
    plain, fitted = (CaptionBatches(pairs(), batch_size=13, captions=3, fit=fit) for fit in (None, 8))
    for one, other in zip(one_epoch(plain), one_epoch(fitted), strict=True):
        assert other.inputs.shape[0] == 12
        assert other.inputs.shape[1] % 8 == 0
        assert (other.indices, other.count) == (one.indices, one.count)
        assert torch.equal(other.targets[: len(one), : one.targets.shape[1]], one.targets)
        assert (other.targets[len(one) :] == PAD).all()
        groups = other.source[:, 0].view(-1, 3)
        assert (groups == groups[:, :1]).all()  # whole pictures are added


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_the_pictures_of_a_step(world: int) -> None:
    alone = CaptionBatches(pairs(), batch_size=20, captions=2, seed=5)
    ranks = [CaptionBatches(pairs(), batch_size=20, captions=2, seed=5, rank=r, world=world) for r in range(world)]
    assert {rank.epoch_length() for rank in ranks} == {alone.epoch_length()}
    for _ in range(2 * alone.epoch_length()):
        whole = np.array(next(alone).indices).reshape(-1, 2)
        for number, rank in enumerate(ranks):
            assert next(rank).indices == whole[number::world].ravel().tolist()
    fitted = CaptionBatches(pairs(), batch_size=20, captions=2, rank=world - 1, world=world, fit=4)
    assert {batch.inputs.shape[0] for batch in one_epoch(fitted)} == {2 * -(-10 // world)}


def test_a_picture_for_each_rank_or_it_waits() -> None:
    given: list[Pair] = [([n], [7]) for n in range(5)]
    seen: set[int] = set()
    ranks = [CaptionBatches(given, batch_size=8, captions=2, rank=rank, world=4) for rank in range(4)]
    for _ in range(20):
        epoch = [batch for rank in ranks for batch in one_epoch(rank)]
        assert [len(batch) for batch in epoch] == [2] * 4
        seen |= {index for batch in epoch for index in batch.indices}
    assert seen == set(range(5))  # who waits changes


@pytest.mark.parametrize("stop", [0, 3, 6, 11])
def test_resuming_is_exact(stop: int) -> None:
    options: dict[str, Any] = {"batch_size": 12, "captions": 3, "fit": 4}
    batches = CaptionBatches(pairs(), seed=3, **options)
    list(islice(batches, stop))
    state = batches.state_dict()
    expected = list(islice(batches, 9))
    resumed = CaptionBatches(pairs(), seed=99, **options)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    for one, other in zip(expected, islice(resumed, 9), strict=True):
        assert one.indices == other.indices
        assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in one.tensors().items())


def test_states_of_something_else() -> None:
    batches = CaptionBatches(pairs(), batch_size=12, captions=3)
    state = batches.state_dict()
    with pytest.raises(DataError, match=r"not the state of CaptionBatches: got \['epoch'\]"):
        batches.load_state_dict({"epoch": 1})
    for other in (
        CaptionBatches(pairs(22), batch_size=12, captions=3),
        CaptionBatches(pairs(), batch_size=12, captions=4),
    ):
        with pytest.raises(DataError, match=r"this state is of other batches \(data\)"):
            other.load_state_dict(state)
    with pytest.raises(DataError, match="other batches: got position 7; expected 0 to 6"):
        batches.load_state_dict(state | {"position": 7})
    assert batches.state_dict() == state  # nothing of a wrong one was taken


def test_wrong_settings() -> None:
    for settings, message in (
        ({"captions": 0}, "captions: got 0"),
        ({"batch_size": 2}, "batch_size: got 2 for 3 captions on 1 ranks; expected a picture for each rank"),
        ({"world": 5}, "batch_size: got 12 for 3 captions on 5 ranks"),
        ({"rank": 1}, "rank: got rank 1 of 1"),
        ({"seed": -1}, "seed: got -1"),
        ({"fit": 0}, "fit: got 0"),
    ):
        with pytest.raises(ConfigError, match=f"CaptionBatches {message}"):
            CaptionBatches(pairs(), **{"batch_size": 12, "captions": 3} | settings)
    with pytest.raises(DataError, match="too few pairs to make batches of: got 0 pictures and 1 ranks"):
        CaptionBatches([], batch_size=4, captions=2)
    with pytest.raises(DataError, match="the source of a caption is its picture: got 2 numbers in pair 0"):
        CaptionBatches([([1, 2], [7])], batch_size=4, captions=2)


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog 's black-and-white ball , on the GRASS .", "a dog 's black-and-white ball on the grass"),
        ("The man's dog doesn't bark!", "the man 's dog does n't bark"),
        ('A boy in a "Superman" shirt (number 7).', "a boy in a superman shirt number 7"),
        (" . , ", ""),
    ],
)
def test_words_of_a_caption(text: str, tokens: str) -> None:
    assert caption_tokens(text) == tokens.split()


# ── one's own ───────────────────────────────────────────────────────────────────────────────────────────────────────


def own(folder: Path, lines: str, *pictures: str) -> tuple[Path, Path]:
    (folder / "pictures" / "deep").mkdir(parents=True)
    for name in pictures:
        (folder / "pictures" / name).write_bytes(name.encode())
    (folder / "captions.tsv").write_text(lines)
    return folder / "captions.tsv", folder / "pictures"


def test_a_folder_with_captions(tmp_path: Path) -> None:
    lines = "a.png\tA dog .\nb.jpg#0\tA cat\nb.jpg#1\tTwo cats\ndeep/c.png\tA cow\n"
    found = read_captions(*own(tmp_path, lines, "a.png", "b.jpg", "deep/c.png", "notes.txt"))
    assert found.names == ("a.png", "b.jpg", "deep/c.png")
    assert found.captions == (("A dog .",), ("A cat", "Two cats"), ("A cow",))
    assert found.read("deep/c.png") == b"deep/c.png"
    assert found.dropped == {}


@pytest.mark.parametrize(
    ("line", "reason", "got"),
    [
        ("no tab at all", "no tab", "'no tab at all'"),
        ("a.png\t . ", "no caption", "a.png"),
        ("\ta dog", "no picture is named", "a dog"),
        ("lost.png\ta dog", "a picture that is not there", "lost.png"),
        ("../a.png\ta dog", "a picture outside the folder", "../a.png"),
        ("/etc/a.png\ta dog", "a picture outside the folder", "/etc/a.png"),
    ],
)
def test_bad_lines(tmp_path: Path, line: str, reason: str, got: str) -> None:
    places = own(tmp_path, f"a.png\tA dog\n{line}\n", "a.png")
    with pytest.raises(DataError, match=rf"captions\.tsv, line 2: {reason}: got .*{got}.*on_bad='drop'"):
        read_captions(*places)
    found = read_captions(*places, on_bad="drop")
    assert found.names == ("a.png",)
    assert found.dropped == {reason: 1}


def test_pictures_without_a_caption(tmp_path: Path) -> None:
    places = own(tmp_path, "a.png\tA dog\n", "a.png", "b.png", "deep/c.webp", ".hidden.png")
    with pytest.raises(DataError, match=r"a picture without a caption in .*: got b\.png and 1 more"):
        read_captions(*places)
    assert read_captions(*places, on_bad="drop").dropped == {"a picture without a caption": 2}


def test_nothing_to_read(tmp_path: Path) -> None:
    file, folder = own(tmp_path, "x\n", "a.png")
    with pytest.raises(DataError, match="no caption is left"):
        read_captions(file, folder, on_bad="drop")
    with pytest.raises(DataError, match="no folder with pictures: got nothing"):
        read_captions(file, tmp_path / "none")
    with pytest.raises(DataError, match=r"none\.tsv: cannot be read"):
        read_captions(tmp_path / "none.tsv", folder)


@pytest.mark.bare
def test_a_wrong_wish(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="on_bad: got 'skip'"):
        read_captions("x", tmp_path, on_bad="skip")  # type: ignore[arg-type]


def test_the_signature_follows_the_pictures(tmp_path: Path) -> None:
    places = own(tmp_path, "a.png\tA dog\n", "a.png")
    before = read_captions(*places).signature
    assert read_captions(*places).signature == before
    (places[1] / "a.png").write_bytes(b"another picture")
    assert read_captions(*places).signature != before


def test_splits_do_not_depend_on_the_order() -> None:
    def made(names: list[str]) -> dict[str, Captions]:
        captions = Captions(tuple(names), tuple((f"a {name}",) for name in names), str.encode, "x")
        return split_captions(captions, valid=3, test=2)

    names = [f"{i}.png" for i in range(20)]
    one, other = made(names), made(names[::-1])
    sizes: dict[str, Any] = {name: len(split) for name, split in one.items()}
    assert sizes == {"train": 15, "valid": 3, "test": 2}
    assert {name: set(split.names) for name, split in one.items()} == {n: set(s.names) for n, s in other.items()}
    assert one["valid"].captions[0] == (f"a {one['valid'].names[0]}",)
    with pytest.raises(DataError, match="nothing is left to train on"):
        made(names[:5])


def test_a_broken_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK no zip")
    with pytest.raises(DataError, match=r"x\.zip: cannot be read"):
        Zip(path)("a")

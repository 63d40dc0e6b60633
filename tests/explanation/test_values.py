import numpy as np
import pytest
import torch

from regard.base import ConfigError, ShapeError
from regard.explanation.values import (
    as_image,
    as_indices,
    as_labels,
    as_layers,
    as_numbers,
    as_text,
    as_whole,
    rounded,
    to_numpy,
)

AXES = {2: "[q k]"}


@pytest.mark.parametrize("given", [
    np.array([[1, 2]], dtype=np.int32), [[1, 2]], ((1.0, 2.0),), torch.tensor([[1.0, 2.0]], requires_grad=True),
    [torch.tensor([1.0, 2.0])], torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16),
])  # fmt: skip
def test_numbers_of_any_array(given):
    numbers = as_numbers("weights", given, AXES)
    assert numbers.tolist() == [[1.0, 2.0]]
    assert numbers.dtype == np.float64
    assert not numbers.flags.writeable


@pytest.mark.parametrize(("given", "error", "message"), [
    ([1.0], ShapeError, r"weights have the wrong number of axes: got shape \[1\]; expected \[q k\]"),
    ([["1"]], ShapeError, r"weights are not numbers: got <U1; expected \[q k\]"),
    ([[True]], ShapeError, "weights are not numbers: got bool"),
    ([[None]], ShapeError, "weights are not numbers: got object"),
    ([[1.0], [1.0, 2.0]], ShapeError, "weights are ragged or no numbers"),
    ([[10**400]], ShapeError, "weights are not numbers"),
    ([[np.nan, 1.0]], ConfigError, "weights are not finite: got 1 of 2 NaN or infinite. Try: pass weights"),
])  # fmt: skip
def test_what_are_no_numbers(given, error, message):
    with pytest.raises(error, match=message):
        as_numbers("weights", given, AXES)


def test_nothing_has_as_many_axes_as_it_should():
    assert as_numbers("weights", [], AXES).shape == (0, 0)


def test_indices():
    assert as_indices("sources", np.array([0, 2]), 3).tolist() == [0, 2]
    assert as_indices("sources", [], 0).tolist() == []
    for given in ([3], [-1], [0.5], [np.nan], [np.inf], [[0]], ["0"], None):
        with pytest.raises((ConfigError, ShapeError), match="sources"):
            as_indices("sources", given, 3)


def test_labels():
    assert as_labels("rows", (word for word in ["a", "b"]), 2) == ("a", "b")
    for given in ("ab", None, 5, [1], [None], [["a"]], {"a": 1}):
        with pytest.raises(ConfigError, match="rows"):
            as_labels("rows", given)
    with pytest.raises(ShapeError, match=r"rows do not fit the weights: got 1 labels; expected 2. Try: give one label"):
        as_labels("rows", ["a"], 2)


def test_texts_and_whole_numbers():
    assert as_text("title", np.str_("a")) == "a"
    assert as_whole("size", np.int64(3)) == 3
    for given in (None, 5, b"a"):
        with pytest.raises(ConfigError, match="title is not a text"):
            as_text("title", given)
    for given in (0, 1.0, True, None, "1"):
        with pytest.raises(ConfigError, match=r"size: got .*; expected a whole number, 1 or more"):
            as_whole("size", given)


@pytest.mark.parametrize(("given", "error", "message"), [
    (np.zeros((2, 2), dtype=np.uint8), ShapeError, r"an explanation needs a picture: got shape \[2, 2\]; expected"),
    ([[[0, 0, 0]]], ShapeError, r"an explanation needs a picture: got \[\[\[0, 0, 0\]\]\]; expected an array"),
    (np.zeros((0, 2, 3), dtype=np.uint8), ShapeError, r"got shape \[0, 2, 3\]"),
    (np.zeros((2, 2, 3)), ConfigError, r"the picture of an explanation: got float64; expected bytes \(uint8\)"),
    (np.broadcast_to(np.uint8(0), (10**5, 10**5, 3)), ConfigError, "too large: got 100000 × 100000 pixels"),
])  # fmt: skip
def test_what_is_no_picture(given, error, message):
    with pytest.raises(error, match=message):
        as_image(given)


def test_layers_have_one_length():
    layers = as_layers("gates", {"a": [[0.5]], "b": [[0.5, 1.0]]}, "[n c]")
    assert {name: array.shape for name, array in layers.items()} == {"a": (1, 1), "b": (1, 2)}
    with pytest.raises(ShapeError, match="gates differ in length: got 1 for 'a', 2 for 'b'"):
        as_layers("gates", {"a": [[0.5]], "b": [[0.5], [1.0]]}, "[n c]")
    for given in (None, [1], {1: [[0.5]]}):
        with pytest.raises(ConfigError, match="gates"):
            as_layers("gates", given, "[n c]")


def test_six_digits_count_and_rounding_twice_changes_nothing():
    numbers = np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.random.default_rng(1).integers(
        -12, 12, (50, 4)
    )
    once = np.array(rounded(numbers))
    assert np.allclose(once, numbers, rtol=5.01e-6, atol=0)
    assert rounded(once) == once.tolist()
    assert max(len(repr(number).replace("-", "")) for number in once.ravel().tolist()) <= 20
    assert rounded(np.array([3, 4])) == [3, 4]


def test_tensors_of_every_type_become_arrays():
    numbers = torch.tensor([[1.0, 0.1]], requires_grad=True)
    assert to_numpy(numbers.double()).dtype == np.float64
    assert to_numpy(numbers.bfloat16()).tolist() == numbers.bfloat16().float().tolist()
    assert to_numpy(torch.tensor([7], dtype=torch.uint8)).dtype == np.uint8
    assert [array.tolist() for array in to_numpy([numbers, np.zeros(1)])] == [numbers.tolist(), [0.0]]
    assert to_numpy("text") == "text"

"""Checks of a call: our own errors, each with its cure, where the shape-checking import hook is off."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.align import Softmax
from regard.attention import Attention, MultiHead, attend
from regard.attention.checks import check_call, check_callable, check_dropout, check_pairs, key_tensor
from regard.attention.output import CallOptions
from regard.base import ConfigError, MaskError, RegardError, ShapeError
from regard.score import Prepared, ScaledDot

X = torch.zeros(2, 3, 4)
WRONG: list[tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any], type[RegardError], str]] = [
    ((X[0, 0], X, X), {}, ShapeError, r"query needs an axis for its items.*got \[4\].*query\.unsqueeze\(-2\)"),
    ((X[0], X, X), {}, ShapeError, r"the query has fewer axes than keys or values: got query \[3, 4\]"),
    ((X, X, X[:, :2]), {}, ShapeError, "keys and values differ in length: got 3 and 2"),
    ((X, X.long(), X), {}, ShapeError, r"keys must hold real numbers: got torch\.int64.*keys\.float\(\)"),
    ((X, X[:1].expand(3, 3, 4), X), {}, ShapeError, "leading axes of query, keys and values do not fit"),
    ((X, X, X), {"bias": torch.ones(3, 3, dtype=torch.bool)}, MaskError, "a bias is added.*pass it as mask="),
    ((X, X, X), {"bias": torch.ones(2, 2)}, ShapeError, r"the bias does not fit the scores: got \[2, 2\]"),
    ((X, X, X), {"bias": torch.ones(3, 3, dtype=torch.cfloat)}, ShapeError, "a bias must hold real numbers"),
    ((X, X, X), {"previous": torch.ones(3)}, ShapeError, r"the previous weights do not fit the keys: got \[3\]"),
    ((X, X, X), {"step": 1 << 63}, ConfigError, "step: got"),
    ((X, X, X.to("meta")), {}, ShapeError, "values and query are on different devices: got meta and cpu"),
]


@pytest.mark.bare
@pytest.mark.parametrize(("tensors", "options", "error", "message"), WRONG, ids=[case[3][:30] for case in WRONG])
def test_what_does_not_fit_is_named(
    tensors: tuple[Tensor, Tensor, Tensor], options: dict[str, Any], error: type[RegardError], message: str
) -> None:
    for call in (attend, Attention()):
        with pytest.raises(error, match=message):
            call(*tensors, **options)


@pytest.mark.bare
def test_the_front_door_of_many_heads() -> None:
    layer = MultiHead(4, num_heads=2)
    for call, message in (
        (lambda: layer(X[..., :3]), r"query of MultiHead: got \[2, 3, 3\]; expected \[\.\.\., query, 4\]"),
        (lambda: layer(X, X[..., :3]), r"keys of MultiHead: got \[2, 3, 3\]"),
        (lambda: layer(X, X, X[:, :2]), "keys and values differ in length: got 3 and 2"),
    ):
        with pytest.raises(ShapeError, match=message):
            call()


def test_the_hook_knows_the_shapes_of_the_front_door() -> None:
    """Leading axes may differ as broadcasting allows; where the hook is on, it finds what does not fit."""
    many = X.expand(5, 2, 3, 4)
    assert attend(many, X, X[:1]).context.shape == (5, 2, 3, 4)
    assert Attention()(many, X[0], many).context.shape == (5, 2, 3, 4)
    assert MultiHead(4, num_heads=2)(many, many[:, :, :2]).context.shape == (5, 2, 3, 4)
    with pytest.raises(Exception, match=r"differ in length|Type-check error"):
        attend(X, X, X[:, :2])


def test_what_fits_passes() -> None:
    options = CallOptions(None, torch.ones(3), torch.ones(2, 1), 0, 0.0)
    assert check_call(X, Prepared(X[:1]), X, options) == (2,)
    assert key_tensor(Prepared(X)) is key_tensor(X) is X
    check_dropout(0.0)
    check_pairs("score", ScaledDot(), torch.ones(2, 3, 3), 3, 3)
    default = Softmax()
    assert check_callable("align", None, default) is default
    assert check_callable("align", len, default) is len


def test_what_is_no_score() -> None:
    for chosen, message in (
        (ScaledDot, r"score must be an object, not a class: got ScaledDot.*write ScaledDot\(…\)"),
        (Softmax(), "this is no score: got Softmax"),
        (3, "score must be callable: got 3"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_callable("score", chosen, ScaledDot())
    with pytest.raises(ShapeError, match=r"len returned no score for each pair: got int; expected \[\.\.\., 3, 3\]"):
        check_pairs("score", len, 5, 3, 3)
    with pytest.raises(ConfigError, match="0 ≤ dropout < 1"):
        check_dropout(1.0)

import torch

from regard.datasets.single_shapes import GROUNDS, single_shapes


def test_pictures_of_one_form_on_one_grey() -> None:
    first, again = single_shapes(), single_shapes()
    for name, split in first.items():
        assert split.images.equal(again[name].images)
        assert split.images.flatten(1).unique(dim=0).shape[0] <= 64
        corners = split.images[:, :, 0, :]  # no form fills the upper row
        assert {*corners[:, :, 0][split.labels == 1].flatten().tolist()} <= {*GROUNDS}
    assert first["train"].images.flatten(1).unique(dim=0).shape[0] == 64
    assert not single_shapes(seed=1)["test"].images.equal(first["test"].images)


def test_the_class_is_the_form() -> None:
    train = single_shapes()["train"]
    inside = (train.images != train.images[:, :, :1, :1]).any(1)  # where it is not as in the corner
    squares, circles = inside[train.labels == 0], inside[train.labels == 1]
    assert all(form.equal(squares[0]) for form in squares)
    assert all(form.equal(circles[0]) for form in circles)
    assert not torch.equal(squares[0], circles[0])

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from regard import api
from regard.api.examples import _by_class, _by_length, overviews
from regard.base import ConfigError
from regard.tasks import Recognised


@pytest.mark.parametrize(("samples", "numbers"), [(0, []), (1, [3]), (2, [3, 2]), (3, [3, 0, 2]), (9, [3, 0, 1, 2])])
def test_sentences_are_of_all_lengths_from_the_shortest_to_the_longest(samples: int, numbers: list[int]) -> None:
    assert _by_length([2, 3, 4, 1], samples) == numbers


def test_pictures_are_of_all_classes() -> None:
    labels = [1, 1, 0, 1, 2, 0]
    assert _by_class(labels, 3) == [2, 0, 4]
    assert _by_class(labels, 9) == [2, 0, 4, 5, 1, 3]
    assert _by_class(labels, 0) == []


def test_what_is_chosen_of_a_split(gazing: api.Model, captioning: api.Model, trained: api.Model) -> None:
    labels = gazing.task.held_out("test").labels[:, 0]
    assert labels[api.chosen(gazing, "test", 10)].tolist() == list(range(10))
    count = len(captioning.task.splits["test"])
    assert api.chosen(captioning, "test", 2) == [0, count // 2]
    assert api.chosen(captioning, "test", 99) == list(range(count))
    assert len(api.chosen(trained, "test", 2)) == 2
    for model in (gazing, captioning):
        with pytest.raises(ConfigError, match="unknown split: got 'tst'"):
            api.chosen(model, "tst", 1)
        with pytest.raises(ConfigError, match="samples: got -1; expected 0 or more"):
            api.chosen(model, "test", -1)


def test_an_example_has_what_was_shown_and_said(gazing: api.Model) -> None:
    (one,) = api.examples(gazing, "test", [7])
    pictures = gazing.task.held_out("test")
    assert one.image is not None
    np.testing.assert_array_equal(one.image[..., 1], pictures.images[7, 0].numpy())
    assert one.reference == str(pictures.labels[7, 0].item())
    assert one.source == "digits, test picture 7"
    assert one.said.where.shape == (3, 2)
    assert api.examples(gazing, "test", []) == []


def test_a_translation_without_words_is_not_drawn(trained: api.Model) -> None:
    several = api.examples(trained, "test", [0, 1])
    assert [bool(example.drawings) for example in several] == [bool(example.said.tokens) for example in several]


def test_an_answer_in_words() -> None:
    sure = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [1.0, 0.0, 0.0]])
    where = torch.zeros(6, 2)
    assert api.recognised_text(Recognised("12", ["1", "2"], sure, where)) == "12 (40.0 %, 6 glimpses)"  # and the end
    assert api.recognised_text(Recognised("7", ["7"], sure[1:2], None)) == "7 (80.0 %)"
    assert api.recognised_text(Recognised("", [], sure[2:], None)) == "nothing (100.0 %)"


def test_gates_are_gathered_over_pictures(gated: api.Model, gazing: api.Model) -> None:
    first, second = overviews(gated, "test")
    lines = first.axes(False)[0, 0].lines
    assert [line.get_label() for line in lines] == ["cat", "dog", "frog", "all"]
    assert np.asarray(second.axes(True)).size >= 3
    (third,) = overviews(gazing, "test")
    assert third.name == "errors_by_glimpse"
    (ax,) = third.axes(False)
    assert ax.lines[0].get_ydata().tolist() == gazing.evaluate("test").details["by_glimpse"]


def test_a_run_keeps_its_colour_on_a_page_of_several(gated: api.Model, gazing: api.Model) -> None:
    def colours(place: int, dark: bool) -> list[str]:
        (path,), (_, gates) = (overviews(model, "test", run=place) for model in (gazing, gated))
        bar = gates.axes(dark)[0, 0].patches[0]
        return [to_hex(path.axes(dark)[0].lines[0].get_color()), to_hex(bar.get_facecolor())]

    assert colours(0, False) == ["#0072b2"] * 2
    assert colours(1, False) == ["#d55e00"] * 2
    assert colours(1, True) == ["#ff8b45"] * 2


def test_every_place_has_a_map(wide: api.Model) -> None:
    (one,) = api.examples(wide, "test", [3])
    (weights,) = one.maps.values()
    assert weights.shape == (16, 16, 16, 16)
    np.testing.assert_allclose(weights.sum((2, 3)), 1, atol=1e-4)
    (drawing,) = one.drawings
    assert len(drawing.axes(False)) == 1 + 4


def test_words_over_a_picture_on_dark_paper(captioning: api.Model) -> None:
    (one,) = api.examples(captioning, "test", [0])
    said = captioning.caption(one.image, min_steps=2)
    light, dark = api.overlaid(said), api.overlaid(said, dark=True)
    assert light.shape == dark.shape
    assert light[0, 1].texts[0].get_text() == dark[0, 1].texts[0].get_text() == said.tokens[0]
    assert light[0, 0].figure.get_facecolor() != dark[0, 0].figure.get_facecolor()
    assert light[0, 1].texts[0].get_color() != dark[0, 1].texts[0].get_color()

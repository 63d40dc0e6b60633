import numpy as np
import pytest

from regard import api
from regard.base import ConfigError
from regard.explanation import Gates, Path, Places


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
    np.testing.assert_array_equal(one.image[..., 1], pictures.images[7, 0].numpy())
    assert one.reference == str(pictures.labels[7, 0].item())
    assert one.source == "digits, test picture 7"
    (path,) = one.prediction.explanations
    assert isinstance(path, Path)
    assert path.where.shape == (3, 2)
    assert one.output.endswith(", 3 glimpses)")
    assert api.examples(gazing, "test", []) == []


def test_a_translation_without_words_is_not_explained(trained: api.Model) -> None:
    for example in api.examples(trained, "test", [0, 1]):
        assert bool(example.prediction.explanations) == bool(example.prediction.tokens)


def test_gates_are_gathered_over_pictures(gated: api.Model, gazing: api.Model) -> None:
    (gates,) = api.overviews(gated, "test")
    assert isinstance(gates, Gates)
    assert gates.classes == ("cat", "dog", "frog")
    assert len(gates.labels) == 12
    assert api.overviews(gazing, "test") == []


def test_every_place_has_a_map(wide: api.Model) -> None:
    (one,) = api.examples(wide, "test", [3])
    assert one.prediction.explanations == ()
    marked, every = wide.layers(one.prediction)
    assert isinstance(marked, Places)
    assert isinstance(every, Places)
    assert every.grid == (16, 16)
    assert np.shape(every.weights) == (256, 16, 16)
    np.testing.assert_allclose(np.sum(every.weights, (1, 2)), 1, atol=1e-4)
    assert len(marked.weights) == 4
    assert api.explanations_of(wide, one.prediction) == [marked]


def test_words_of_a_caption_look_at_places(captioning: api.Model) -> None:
    (one,) = api.examples(captioning, "test", [0])
    caption = captioning.caption(one.image, min_steps=2)
    (places,) = caption.explanations
    assert isinstance(places, Places)
    assert tuple(places.labels) == tuple(caption.tokens)
    np.testing.assert_allclose(np.reshape(places.weights, (len(caption.tokens), -1)), caption.weights, atol=1e-6)


def test_mistakes_come_first_and_are_up_to_half(gazing: api.Model) -> None:
    from regard.api.examples import is_exact, quality, telling

    assert is_exact(gazing)
    numbers = telling([gazing], "test", 6)
    assert len(numbers) == len(set(numbers)) == 6
    right = [quality(gazing, example) for example in api.examples(gazing, "test", numbers)]
    assert set(right) <= {0.0, 1.0}
    assert right[:3] == [0.0] * 3  # it has learnt next to nothing
    assert telling([gazing], "test", 0) == []


def test_translations_are_better_or_worse() -> None:
    from regard.api.examples import is_exact, quality
    from regard.tasks import Example

    model = api.load("tatoeba-en-fr")
    assert not is_exact(model)
    found = model.translate("Thank you.", beam=1)
    near = [quality(model, Example("", reference, found.text, found)) for reference in (found.text, "Non !", "")]
    assert near[0] == near[2] == 1.0
    assert near[1] < 0.5

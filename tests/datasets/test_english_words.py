from regard.data import normalised
from regard.datasets.english_words import english_words


def test_words_are_labels_and_come_once() -> None:
    words = english_words()
    assert len(words) == len(set(words)) == 63_375
    assert all(normalised(word) == word for word in words)
    assert {"the", "restaurant", "parking"} <= set(words)

from regard.datasets.toy_reviews import BAD, GOOD, NEGATIONS, toy_reviews


def test_labels_follow_from_opinion_and_negation() -> None:
    for split in toy_reviews((300, 50, 50)).values():
        for text, label in zip(split.texts[0], split.labels, strict=True):
            words = text.split()
            [place] = [number for number, word in enumerate(words) if word in GOOD + BAD]
            negated = words[place - 1] in NEGATIONS
            assert label == int((words[place] in GOOD) != negated)


def test_counting_words_does_not_help() -> None:
    train = toy_reviews()["train"]
    assert {sum(word in NEGATIONS for word in text.split()) for text in train.texts[0]} == {1}
    said_good = [bool(set(text.split()) & set(GOOD)) for text in train.texts[0]]
    right = [good == bool(label) for good, label in zip(said_good, train.labels, strict=True)]
    assert 0.7 < sum(right) / len(right) < 0.8, "the opinion alone"
    assert 0.45 < sum(train.labels) / train.size < 0.55


def test_everything_is_drawn_from_the_seed() -> None:
    first, again, other = toy_reviews(seed=0), toy_reviews(seed=0), toy_reviews(seed=1)
    assert first["train"].texts == again["train"].texts != other["train"].texts
    assert not set(first["test"].texts[0]) >= set(first["valid"].texts[0])

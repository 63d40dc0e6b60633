"""Generated sentences: the same from the same seed, and their verbs agree with their subjects."""

from regard.datasets.agreement import ALONE, NOUNS, VERBS, agreement


def test_splits() -> None:
    splits = agreement((50, 5, 6))
    assert [text.count("\n") for text in splits.values()] == [50, 5, 6]
    assert splits == agreement((50, 5, 6))
    assert splits["train"] != agreement((50, 5, 6), seed=1)["train"]
    assert len(set(agreement()["valid"].split("\n")) & set(agreement()["test"].split("\n"))) < 60


def test_verbs_agree() -> None:
    """The last verb has the number of the first noun; one inside of a clause has that of the noun of its clause."""
    plural = {noun: number for pair in NOUNS for number, noun in enumerate(pair)}
    verbs = {verb: number for pair in (*VERBS, *ALONE) for number, verb in enumerate(pair)}
    far = 0
    for line in agreement((400, 1, 1))["train"].split("\n")[:-1]:
        subject, clause, rest = line.partition(" that ")
        words = (rest if clause else subject).split()
        nouns = [plural[word] for word in words if word in plural]
        numbers = [verbs[word] for word in words if word in verbs]
        first = next(plural[word] for word in subject.split() if word in plural)
        if clause:
            assert numbers[0] == nouns[0]
            numbers = numbers[1:]
            far += first != nouns[0]
        assert numbers == [first]
    assert far > 40  # a clause in between has the other number: the nearest noun is the wrong one

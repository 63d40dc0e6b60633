import numpy as np

from regard.viz.seen_layer import SeenLayer, pooled, short_names, to_bytes, word


def test_marks_of_sub_words_become_space_marks() -> None:
    shown = {"▁a": "␣a", "ĠĠa": "␣␣a", "aĠ": "aĠ", "▁": "␣", "a b\n": "a␣b⏎", "": "∅", "Ċ": "⏎", "Ġ▁x": "␣␣x"}
    assert {label: word(label) for label in shown} == shown


def test_pooling_keeps_means_and_takes_any_size() -> None:
    rng = np.random.default_rng(0)
    for rows, columns, most in rng.integers(1, 40, (20, 3)).tolist():
        weights = rng.random((2, rows, columns))
        small = pooled(weights, most)
        assert small.shape == (2, min(rows, most), min(columns, most))
        edges = [[place * size // most for place in range(most)] + [size] for size in (rows, columns)]
        for down, across in np.ndindex(small.shape[1:]):
            top, bottom = (edges[0][down], edges[0][down + 1]) if rows > most else (down, down + 1)
            left, right = (edges[1][across], edges[1][across + 1]) if columns > most else (across, across + 1)
            np.testing.assert_allclose(small[:, down, across], weights[:, top:bottom, left:right].mean((1, 2)))


def test_bytes_are_exact_to_half_a_step() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.dirichlet(np.full(50, 0.1), 7), rng.normal(size=(3, 9)), np.zeros((2, 4)), np.zeros((2, 0))):
        steps, low, high = to_bytes(values)
        back = low[:, None] + (high - low)[:, None] * steps.astype(float) / 255
        assert steps.dtype == np.uint8
        assert (np.abs(back - values) <= (high - low)[:, None] / 509 + 1e-7).all()
        assert (low <= 0).all()


def test_rows_know_their_columns() -> None:
    def columns(rows: list[int], row_labels: list[str] | None, column_labels: list[str] | None) -> list[int | None]:
        weights = np.zeros((1, len(rows), 3))
        return SeenLayer("x", weights, [0], rows, row_labels, column_labels).column_of_row

    assert columns([1, 2], None, None) == [1, 2]
    assert columns([1, 2], ["b", "c"], ["a", "b", "c"]) == [1, 2]
    assert columns([1, 3], ["b", "d"], ["a", "b", "c"]) == [1, None]  # a step whose own key is not there yet
    assert columns([0, 1], ["la", "maison"], ["the", "house", "."]) == [None, None]
    assert columns([0, 1], ["a", "b"], None) == [None, None]
    assert columns([0, 7], None, None) == [None, None]


def test_names_lose_what_is_common() -> None:
    assert short_names(["a.0", "a.0:1"]) == ["0", "0:1"]
    assert short_names(["x"]) == ["x"]
    assert short_names(["a", "a.b"]) == ["a", "a.b"]

"""Lines of a running text, by hand."""

import numpy as np

from regard.data import TextUnits
from regard.tasks.running_text import characters_of, first_lines, lines_told, short_lines

TEXT = "a b c\nd e\n\nf g h i\n"


def test_lines() -> None:
    units = TextUnits.train(TEXT, kind="spaced")
    assert first_lines(TEXT, units, 7) == "a b c\nd e\n"  # 4 + 3 tokens, with line ends
    assert first_lines(TEXT, units, 1) == "a b c\n"  # one line at least
    assert short_lines(TEXT, units) == [["a", "b", "c"], ["d", "e"], ["f", "g", "h", "i"]]
    assert [len(line) for line in short_lines("w " * 50 + "\nx", units)] == [40]
    assert (characters_of(TEXT), characters_of("")) == (len(TEXT), 1)
    assert lines_told("a b\nc", [np.log([2.0, 8.0]), np.log([3.0])]) == ["4.00\ta b", "3.00\tc"]

"""Reads any kind of explanation from JSON."""

from regard.base import parse_json
from regard.explanation.explanation import Explanation, read_header, unknown_kind


def explanation_from_json(content: object) -> Explanation:
    """The explanation that `to_json` wrote, of whatever kind it is: from values by name, or from JSON text.

    >>> from regard.explanation import Tape
    >>> explanation_from_json(Tape({"read 0": [[0.5, 0.5]]}).to_json())
    Tape(weights={'read 0': array([[0.5, 0.5]])}, steps=(), title='')
    """
    from regard.explanation import EXPLANATIONS  # the menu, which imports this file

    values = parse_json(content) if isinstance(content, str | bytes) else content
    kind = read_header(values)
    if kind not in EXPLANATIONS:
        raise unknown_kind(kind, EXPLANATIONS)
    return EXPLANATIONS[kind].from_json(values)

"""Porter's stemmer: M. F. Porter, An algorithm for suffix stripping, Program 14 (1980). Steps are those of the paper.

Words of one or two letters stay as they are.
"""

from functools import lru_cache
from itertools import pairwise

_VOWELS = frozenset("aeiou")
_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of an English word in lower case.

    >>> [stem(word) for word in ("playing", "plays", "ponies", "relational", "sky")]
    ['plai', 'plai', 'poni', 'relat', 'sky']
    """
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _y_to_i, _double_suffixes, _further_suffixes, _last_suffixes, _tidy):
        word = step(word)
    return word


def _is_consonant(word: str, place: int) -> bool:
    if word[place] == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return word[place] not in _VOWELS


def _measure(root: str) -> int:
    """m of [C](VC)^m[V]."""
    kinds = [_is_consonant(root, place) for place in range(len(root))]
    return sum(after and not before for before, after in pairwise(kinds))


def _has_vowel(root: str) -> bool:
    return not all(_is_consonant(root, place) for place in range(len(root)))


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_short(word: str) -> bool:
    """consonant, vowel, consonant, the last of them not w, x or y."""
    last = len(word) - 1
    return (
        last >= 2
        and _is_consonant(word, last)
        and not _is_consonant(word, last - 1)
        and _is_consonant(word, last - 2)
        and word[-1] not in "wxy"
    )


def _plural(word: str) -> str:  # step 1a
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:  # step 1b
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        root = word.removesuffix(suffix)
        if root != word and _has_vowel(root):
            break
    else:
        return word
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _ends_double(root) and root[-1] not in "lsz":
        return root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_short(root) else root


def _y_to_i(word: str) -> str:  # step 1c
    return word[:-1] + "i" if word.endswith("y") and _has_vowel(word[:-1]) else word


def _replaced(word: str, table: dict[str, str]) -> str:
    """The longest suffix of the table gives way to another, where m > 0 before it."""
    for length in range(min(7, len(word)), 1, -1):
        suffix = word[-length:]
        if suffix in table:
            root = word[:-length]
            return root + table[suffix] if _measure(root) > 0 else word
    return word


def _double_suffixes(word: str) -> str:  # step 2
    return _replaced(word, _STEP_2)


def _further_suffixes(word: str) -> str:  # step 3
    return _replaced(word, _STEP_3)


def _last_suffixes(word: str) -> str:  # step 4
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            fits = _measure(root) > 1 and (suffix != "ion" or root.endswith(("s", "t")))
            return root if fits else word
    return word


def _tidy(word: str) -> str:  # steps 5a and 5b
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _ends_short(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word

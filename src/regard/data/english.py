"""English words as treebanks write them: one tokeniser for raw text and for text that comes tokenised.

Some data sets are raw ("The man's dog doesn't bark."), others come with spaces between the tokens of the Penn Treebank
("The man 's dog does n't bark ."). Both become the same words here, and so does what a user types.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.text import Vocabulary, WordCodec, tokenize

_CLITIC = r"(?:'(?:s|re|ve|ll|d|m)|n't)"
_APART = re.compile(rf"(?<=\w) +(?={_CLITIC}(?!\w))", re.IGNORECASE)  # "does n't", "man 's"
_JOINED = re.compile(rf"(?P<word>\w.*?)(?P<clitic>{_CLITIC})", re.IGNORECASE)
_CANNOT = re.compile(r"\b(can)(not)\b", re.IGNORECASE)
_TREEBANK = {
    "``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    r"\/": "/", r"\*": "*",
}  # fmt: skip
_ESCAPED = re.compile("|".join(map(re.escape, _TREEBANK)) + "|[“”]", re.IGNORECASE)
_APOSTROPHE = re.compile("[’‘](?=\\w)|(?<=\\w)’")


def english_tokens(text: str, *, lower: bool = False) -> list[str]:
    r"""The words and punctuation marks of a text; clitics such as 's and n't are words of their own.

    Tokens joined by spaces give the same tokens again.

    >>> english_tokens("The man's dog doesn't bark.")
    ['The', 'man', "'s", 'dog', 'does', "n't", 'bark', '.']
    >>> english_tokens("The man 's dog does n't bark .") == english_tokens("The man's dog doesn't bark.")
    True
    >>> english_tokens("`` Bad '' -LRB- I cannot say more -RRB-", lower=True)
    ['"', 'bad', '"', '(', 'i', 'can', 'not', 'say', 'more', ')']
    """
    plain = _ESCAPED.sub(lambda match: _TREEBANK.get(match[0].upper(), '"'), text)
    plain = _APART.sub("", _APOSTROPHE.sub("'", plain))
    plain = _CANNOT.sub(r"\1 \2", plain)
    words: list[str] = []
    for token in tokenize(plain, lower=lower):
        match = _JOINED.fullmatch(token)
        words += [token] if match is None else [match["word"], match["clitic"]]
    return words


@dataclass(frozen=True)
class EnglishWords(WordCodec):
    """Words by `english_tokens`, numbered by a vocabulary."""

    @classmethod
    def train(
        cls, lines: Iterable[str], *, max_size: int | None = None, min_count: int = 1, lower: bool = False
    ) -> "EnglishWords":
        """The codec with the most frequent words of some lines; `max_size` counts the four specials."""
        sentences = (english_tokens(line, lower=lower) for line in lines)
        return cls(Vocabulary.build(sentences, max_size=max_size, min_count=min_count), lower)

    def tokens(self, text: str) -> list[str]:
        """The words of a text, known or not."""
        return english_tokens(text, lower=self.lower)

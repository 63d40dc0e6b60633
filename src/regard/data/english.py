"""English words as treebanks write them: one tokeniser for raw text and for text that comes tokenised.

Some data sets are raw ("The man's dog doesn't bark."), others come with spaces between the tokens of the Penn Treebank
("The man 's dog does n't bark ."). Both become the same words here, and so does what a user types.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.text import Vocabulary, WordCodec
from regard.data.tokenizing import english_tokens


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

"""Text to words and back, with the standard library alone: one rule for English, French and German, and treebanks.

An exported model carries a copy of this file, so it imports nothing else of the package.

>>> tokenize("I don't know."), detokenize(["I", "don't", "know", "."])
(['I', "don't", 'know', '.'], "I don't know.")
"""

import re
import unicodedata
from collections.abc import Sequence

_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")  # soft hyphen, zero-width spaces
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_CURLY, _INNER = re.compile("[’‐‑]"), str.maketrans("’‐‑", "'--")

_ELISION = r"(?i:qu|jusqu|lorsqu|puisqu|quoiqu|[cdjlmnst])['’]"
_VOWEL = r"(?i:[aàâæeéèêëhiîïoôœuùûüy\d])"
_TITLE = r"(?i:mrs?|ms|dr|prof|st|mt|jr|sr|vs|etc|cf|inc|ltd|co|corp|mm|bzw|ca|usw|vgl|ggf|evtl|inkl|sog|hr|fr)\."
_NUMBERED = r"(?i:no|nr|art|abs|pp?|vol|figs?|kap|chap|sec|s)\."
_LETTER, _WORD = r"[^\W\d_]", "[\\w\u0300-\u036f]+"
_TOKEN = re.compile(
    rf"""
      \w++(?!\S)                                              # most words: only faster
    | (?:https?://|www\.)[^\s<>"“”«»]*[\w/]                   # addresses
    | \w[\w.+-]{{0,63}}@[\w-]+(?:\.[\w-]+)+
    | (?<!\w){_ELISION}(?={_VOWEL}|\s*["“„«]|\s\w)            # l'  qu'
    | (?<!\w){_LETTER}(?:\.-?{_LETTER})+(?!\w)\.?             # U.S.  z.B.  J.-C.
    | (?<!\w){_TITLE}
    | (?<!\w){_NUMBERED}(?=\s*\d)                             # No. 5
    | (?<!\w)[A-HJ-ZÀ-ÖØ-Þ]\.(?=\s+[A-ZÀ-ÖØ-Þ])               # F. Kennedy
    | {_WORD}(?:(?:[-‐‑'’]|(?<=\d)[.,:/–](?=\d)|(?<=[a-z\d])\.(?=[a-z\d])){_WORD})*
      (?:-(?=\s+(?:und|oder|bzw|sowie|bis|and|or|to|et|ou)\b))?
    | \.{{2,}} | -{{2,}}
    | \S
    """,
    re.VERBOSE,
)
_ELIDED = re.compile(_ELISION)
_QUOTES, _CLINGS_LEFT, _CLINGS_RIGHT = frozenset("\"'“‘„‚"), frozenset(".,;:!?…)]}%”’°"), frozenset("([{¿¡$£")

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


def normalize_text(text: str) -> str:
    """Unicode NFC, one space between words, no control characters, soft hyphens or zero-width spaces."""
    if text.isascii() and text.isprintable():  # most English text: only faster
        return " ".join(text.split())
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return " ".join(unicodedata.normalize("NFC", text).split())


def tokenize(text: str, *, lower: bool = False) -> list[str]:
    """Words, numbers and punctuation marks, by one rule for English, French and German.

    - Punctuation is split off, mark by mark; runs of dots or hyphens are one token.
    - A French elision stays with the left word (`l'`, `qu'`), other words with apostrophes or hyphens are whole
      (`aujourd'hui`, `don't`, `a-t-il`). Inside a word ’ becomes '.
    - Numbers keep their signs (`1,000.5`, `12:30`), abbreviations their dots (`U.S.`, `Mr.`, `No.` before a number).

    Tokens joined by spaces give the same tokens again.

    >>> tokenize("Don't say “yes”, Mr. Smith: it’s 3.5%!")
    ["Don't", 'say', '“', 'yes', '”', ',', 'Mr.', 'Smith', ':', "it's", '3.5', '%', '!']
    >>> tokenize("Aujourd’hui, qu'est-ce que l’Europe ?", lower=True)
    ["aujourd'hui", ',', "qu'", 'est-ce', 'que', "l'", 'europe', '?']
    """
    tokens = _TOKEN.findall(normalize_text(text))
    if not text.isascii() and _CURLY.search(text):
        tokens = [token.translate(_INNER) if len(token) > 1 else token for token in tokens]
    return [token.lower() for token in tokens] if lower else tokens


def detokenize(tokens: Sequence[str]) -> str:
    """Tokens as a sentence: marks go back to their words, quotation marks to what they enclose.

    French spaces are kept inside « », but not set before ; : ! ?

    >>> detokenize(["Qu'", "est-ce", "que", "l'", "Europe", "?", "(", "I", "don't", "know", ")", "."])
    "Qu'est-ce que l'Europe? (I don't know)."
    """
    parts: list[str] = []
    opened: set[str] = set()
    tight = True  # no space before the next token
    for position, token in enumerate(tokens):
        left, right = _sides(tokens, position, opened)
        parts.append(token if tight or left else " " + token)
        tight = right
    return "".join(parts)


def _sides(tokens: Sequence[str], position: int, opened: set[str]) -> tuple[bool, bool]:
    """Whether a token clings to what is left of it, and to what is right of it."""
    token = tokens[position]
    opener = {"“": "„", "‘": "‚"}.get(token, token)  # German quotes close with what opens English ones
    if token in _QUOTES:
        if opener in opened and token not in "„‚":
            opened.discard(opener)
            return True, False
        if token == "'" and token not in tokens[position + 1 :]:
            return True, False  # the dogs' owner
        opened.add(token)
        return False, True
    if token == "/":
        return True, True
    if token in _CLINGS_RIGHT or _ELIDED.fullmatch(token):
        return False, True
    if token == "€":
        before, _, after = ["", *tokens, ""][position : position + 3]
        return False, after[:1].isdigit() and not before[:1].isdigit()  # €5, but 5 €
    return token in _CLINGS_LEFT or not token.strip("."), False


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

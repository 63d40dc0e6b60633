"""Text to words and back: the rules themselves are tested in test_text.py and test_english.py."""

import ast
import sys
from pathlib import Path

from regard.data import tokenizing
from regard.data.tokenizing import detokenize, english_tokens, normalize_text, tokenize


def test_the_file_needs_the_standard_library_alone() -> None:
    """Exports carry a copy of it."""
    tree = ast.parse(Path(tokenizing.__file__).read_text())
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} <= sys.stdlib_module_names


def test_words_of_a_text_joined_by_spaces_are_the_same_words() -> None:
    for text in (
        "Aujourd’hui, qu'est-ce que l’Europe\u202f?",
        "The man's dog doesn't\u200b bark.",
        "z.B. 3,5 % (No. 5)",
    ):
        for cut in (tokenize, english_tokens):
            assert cut(" ".join(cut(text))) == cut(text)
        assert tokenize(detokenize(tokenize(text))) == tokenize(text)
        assert normalize_text(normalize_text(text)) == normalize_text(text)

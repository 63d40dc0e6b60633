"""What CTranslate2 and transformers share: positions, vocabularies, units."""

from pathlib import Path

import pytest
import torch
from small_models import plain_transformer, translator

from regard.attention.position import sinusoid
from regard.base import RegardError
from regard.data import SPECIALS
from regard.export.exact_transformer import check_transformer, cutting, positions_of, vocabulary_of, write_units
from regard.models import Transformer


def test_positions_are_a_table() -> None:
    table = positions_of(Transformer(plain_transformer()), 9)
    torch.testing.assert_close(table, sinusoid(torch.arange(9.0), 8))
    learned = Transformer(plain_transformer(position="learned", max_positions=5))
    assert learned.place is not None
    torch.testing.assert_close(positions_of(learned, 9), learned.place.weight)


def test_vocabularies_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for model in (translator("transformer"), translator("transformer", subwords="bpe", joint=True)):
        for codec in model.task.codecs:
            tokens = vocabulary_of(codec)
            assert tuple(tokens[:4]) == SPECIALS
            assert codec.decode_tokens(range(4, len(codec))) == tokens[4:]
        write_units(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "source_words.json", "target_words.json", "source.model", "target.model", "tokenizing.py",
    }  # fmt: skip


def test_a_model_is_checked_setting_by_setting() -> None:
    check_transformer(translator("transformer"), "x", positions=("sinusoidal",))
    with pytest.raises(RegardError, match=r"small_transformer cannot be exported to x: got model.position=alibi"):
        check_transformer(translator("transformer", position="alibi"), "x", positions=("sinusoidal",))
    assert cutting(translator("transformer")) == ("tokenize(text, lower=True)", "detokenize(pieces)")

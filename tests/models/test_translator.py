import pytest
import torch

from regard.models import MODELS, EncodedSource, Translator


def test_the_papers_are_named() -> None:
    for name, paper in MODELS.items():
        assert paper.link.startswith("https://arxiv.org/abs/"), name
        assert 2014 <= paper.year <= 2020
        assert issubclass(paper.model, torch.nn.Module)


def test_a_model_must_say_how() -> None:
    empty, tokens, lengths = Translator(), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long)
    for call in (
        lambda: empty.encode(tokens, lengths),
        lambda: empty.init_state(EncodedSource(torch.zeros(1, 1, 1), lengths, torch.zeros(1, 1))),
        lambda: empty.step(tokens[0], None),
        lambda: empty(tokens, lengths, tokens),
    ):
        with pytest.raises(NotImplementedError):
            call()

import pytest
import torch

from regard.models import MODELS, EncodedSource, Translator


def test_the_papers_are_named() -> None:
    for name, paper in MODELS.items():
        rule = f"{name}: the link of a Paper begins with https://arxiv.org/abs/, or is left out where no paper exists"
        assert paper.link.startswith("https://arxiv.org/abs/") or not paper.link, rule
        assert paper.year >= 2014, f"{name}: {paper.year} is no year of a paper on attention"
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

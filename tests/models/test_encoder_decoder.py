import torch

from regard.models import Cho, ChoConfig, Sutskever, SutskeverConfig, cho_base, sutskever_base


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 9, (2, 5))


def test_size_of_the_paper() -> None:
    """64 M recurrent weights and 320 M others, biases ignored: 384 M."""
    with torch.device("meta"):
        model = Sutskever(sutskever_base(160_000, 80_000))
    weights = {name: p.numel() for name, p in model.named_parameters() if "bias" not in name}
    assert sum(count for name, count in weights.items() if "coder" in name) == 64_000_000
    assert sum(weights.values()) == 384_000_000


def test_cho_has_the_published_widths() -> None:
    config = cho_base(15_000, 15_000)
    assert (config.hidden_dim, config.embed_dim, config.maxout_dim) == (1000, 100, 500)


def test_only_the_last_real_state_gets_through() -> None:
    """Were the decoder to look at anything else of the encoder, noise there would show."""
    model = Cho(ChoConfig(11, 9, embed_dim=6, hidden_dim=8, maxout_dim=5)).eval()
    source, lengths, inputs = batch()
    memory = model.encode(source, lengths)
    noisy = memory._replace(values=torch.randn_like(memory.values))
    plain, other = (model.step(inputs[:, 0], model.init_state(m)).logits for m in (memory, noisy))
    assert torch.equal(other, plain)


def test_source_is_read_backwards() -> None:
    model = Sutskever(SutskeverConfig(11, 9, embed_dim=6, hidden_dim=8, layers=2)).eval()
    source, lengths, _ = batch()
    _, (hidden, cell) = model.encoder.layers(model.source(source[1:, :4].flip(1)))
    summary = model.encode(source, lengths).summary[1]
    torch.testing.assert_close(summary, torch.stack([hidden, cell]).squeeze(2))


def test_forward_source_is_a_setting() -> None:
    model = Sutskever(SutskeverConfig(11, 9, embed_dim=6, hidden_dim=8, layers=2, reverse_source=False)).eval()
    source, lengths, _ = batch()
    _, (hidden, _) = model.encoder.layers(model.source(source[:1]))
    torch.testing.assert_close(model.encode(source, lengths).summary[0, 0], hidden[:, 0])

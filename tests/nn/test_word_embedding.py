import torch

from regard.data import PAD, UNK
from regard.nn import WordEmbedding


def test_padding_is_zero_and_stays_so() -> None:
    torch.manual_seed(0)
    table = WordEmbedding(200, 50)
    assert (table.weight[PAD] == 0).all()
    assert abs(table.weight[PAD + 1 :].std().item() - 0.3) < 0.01
    table(torch.tensor([[PAD, 7]])).sum().backward()
    assert (table.weight.grad[PAD] == 0).all()
    assert (table.weight.grad[7] == 1).all()


def test_some_words_become_unknown_in_training_only() -> None:
    torch.manual_seed(0)
    table, texts = WordEmbedding(10, 4, word_dropout=0.3), torch.full((50, 40), 7)
    texts[:, 30:] = PAD
    vectors = table(texts)
    unknown = (vectors == table.weight[UNK]).all(-1)
    assert abs(unknown[:, :30].float().mean().item() - 0.3) < 0.03
    assert (vectors[:, :30][~unknown[:, :30]] == table.weight[7]).all()
    assert (vectors[:, 30:] == 0).all()  # padding stays padding
    assert (table.eval()(texts[:, :30]) == table.weight[7]).all()


def test_some_numbers_are_zero_in_training_only() -> None:
    torch.manual_seed(0)
    table, texts = WordEmbedding(10, 6, dropout=0.25), torch.full((40, 30), 7)
    zero = table(texts) == 0
    assert abs(zero.float().mean().item() - 0.25) < 0.02
    assert torch.allclose(table(texts)[~(table(texts) == 0)].abs().max(), table.weight[7].abs().max() / 0.75)
    assert (table.eval()(texts) == table.weight[7]).all()

import torch

from regard.nn import DeepOutput


def test_maxout_over_adjacent_pairs() -> None:
    layer = DeepOutput(2, 3, 4, maxout_dim=5, vocabulary=7)
    state, word, context = torch.randn(6, 2), torch.randn(6, 3), torch.randn(6, 4)
    mixed = layer.from_state(state) + word @ layer.from_word.weight.T + context @ layer.from_context.weight.T
    expected = layer.to_logits(torch.maximum(mixed[:, 0::2], mixed[:, 1::2]))
    torch.testing.assert_close(layer(state, word, context), expected)
    torch.testing.assert_close(layer(state[:, None], word[:, None], context[:, None])[:, 0], expected)

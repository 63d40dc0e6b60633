import torch
from torch import nn

from regard.nn import Bidirectional, LSTMState, StackedLSTM, final_output, reverse, run_lstm


def test_reverse_is_its_own_inverse_and_leaves_padding() -> None:
    x, lengths = torch.randn(4, 6, 3), torch.tensor([6, 1, 0, 4])
    once = reverse(x, lengths)
    assert torch.equal(reverse(once, lengths), x)
    assert torch.equal(once[3, :4], x[3, :4].flip(0))
    assert torch.equal(once[3, 4:], x[3, 4:])
    assert torch.equal(once[2], x[2])


def test_bidirectional_equals_torch_on_packed_sentences() -> None:
    layer, theirs = Bidirectional(5, 4), nn.GRU(5, 4, batch_first=True, bidirectional=True)
    for ours, suffix in ((layer.forwards, ""), (layer.backwards, "_reverse")):
        for name, parameter in ours.named_parameters():
            getattr(theirs, name + suffix).data.copy_(parameter)
    x, lengths = torch.randn(3, 7, 5), torch.tensor([7, 2, 5])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(layer(x, lengths), expected)


def test_final_output_is_at_the_last_real_word() -> None:
    outputs = torch.arange(24.0).reshape(2, 4, 3)
    assert torch.equal(final_output(outputs, torch.tensor([4, 2])), torch.stack([outputs[0, 3], outputs[1, 1]]))


def test_stacked_lstm_does_not_see_padding_and_goes_on_from_its_state() -> None:
    layer = StackedLSTM(5, 4, 2)
    x, lengths = torch.randn(3, 7, 5), torch.tensor([7, 2, 5])
    outputs, final = layer(x, lengths)
    assert final.shape == (3, 2, 2, 4)
    alone, (hidden, cell) = layer.layers(x[1:2, :2])
    torch.testing.assert_close(outputs[1:2, :2], alone)
    assert (outputs[1, 2:] == 0).all()
    torch.testing.assert_close(final[1], torch.stack([hidden[:, 0], cell[:, 0]]))
    longer, _ = layer.layers(x[:1])
    _, state = run_lstm(layer.layers, x[:1, :3], LSTMState(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))
    rest, _ = run_lstm(layer.layers, x[:1, 3:], state)
    torch.testing.assert_close(rest, longer[:, 3:])

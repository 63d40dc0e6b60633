import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.base import ConfigError
from regard.nn import Bidirectional, LSTMState, StackedLSTM, final_output, padding, reverse, run_lstm
from regard.nn.recurrent import SingleLSTM, StepGRU, StepLSTM, gru_step, lstm_step

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def test_reverse_is_its_own_inverse_and_leaves_padding() -> None:
    x, lengths = torch.randn(4, 6, 3), torch.tensor([6, 1, 0, 4])
    once = reverse(x, lengths)
    assert torch.equal(reverse(once, lengths), x)
    assert torch.equal(once[3, :4], x[3, :4].flip(0))
    assert torch.equal(once[3, 4:], x[3, 4:])
    assert torch.equal(once[2], x[2])


def test_padding() -> None:
    assert padding(torch.zeros(2, 3, 1), torch.tensor([3, 1])).squeeze(-1).tolist() == [
        [False] * 3,
        [False, True, True],
    ]


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_bidirectional_equals_torch_on_packed_sentences(kind: type[nn.GRU] | type[nn.LSTM]) -> None:
    layer, theirs = Bidirectional(5, 4, kind=kind), kind(5, 4, batch_first=True, bidirectional=True)
    for ours, suffix in ((layer.forwards, ""), (layer.backwards, "_reverse")):
        for name, parameter in ours.named_parameters():
            getattr(theirs, name + suffix).data.copy_(parameter)
    x, lengths = torch.randn(3, 7, 5), torch.tensor([7, 2, 5])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(layer(x, lengths), expected)


def test_weights_to_the_gates_are_dropped_in_training_only() -> None:
    torch.manual_seed(0)
    layer, plain = Bidirectional(5, 4, kind=nn.LSTM, weight_dropout=0.5), Bidirectional(5, 4, kind=nn.LSTM)
    plain.load_state_dict(layer.state_dict())
    x, lengths = torch.randn(3, 7, 5), torch.tensor([7, 2, 5])
    first, second = layer(x, lengths), layer(x, lengths)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first[:, 0, :4], plain(x, lengths)[:, 0, :4])  # h is zero before the first word
    assert (first[1, 2:] == 0).all()
    first.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    torch.testing.assert_close(layer.eval()(x, lengths), plain(x, lengths))
    with pytest.raises(ConfigError, match=r"weight_dropout: got 0\.5; expected 0 for a GRU"):
        Bidirectional(5, 4, weight_dropout=0.5)


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


def test_stacked_lstm_equals_torch_on_packed_sentences() -> None:
    layer = StackedLSTM(5, 4, 3).double()
    x, lengths = torch.randn(4, 7, 5, dtype=torch.float64), torch.tensor([7, 2, 1, 5])
    junk = x.masked_fill(padding(x, lengths), 1e3).requires_grad_()
    outputs, final = layer(junk, lengths)
    packed = nn.utils.rnn.pack_padded_sequence(x.requires_grad_(), lengths, batch_first=True, enforce_sorted=False)
    theirs, states = layer.layers(packed)
    theirs, _ = nn.utils.rnn.pad_packed_sequence(theirs, batch_first=True)
    torch.testing.assert_close(outputs, theirs)
    torch.testing.assert_close(final, torch.stack(states).permute(2, 0, 1, 3))
    pull = torch.randn_like(outputs), torch.randn_like(final)
    ours, *parameters = torch.autograd.grad([outputs, final], [junk, *layer.parameters()], pull)
    right, *others = torch.autograd.grad(
        [theirs, torch.stack(states).permute(2, 0, 1, 3)], [x, *layer.parameters()], pull
    )
    torch.testing.assert_close(ours, right)
    torch.testing.assert_close(parameters, others)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_stacked_lstm_keeps_its_cells_over_padding_exactly(dtype: torch.dtype) -> None:
    layer = StackedLSTM(5, 4, 2).to(dtype)
    x, lengths = torch.randn(2, 3, 5, dtype=dtype), torch.tensor([3, 2])
    _, final = layer(x, lengths)
    longer = torch.cat([x, torch.full((2, 40, 5), 50.0, dtype=dtype)], 1)
    assert torch.equal(layer(longer, lengths)[1], final)


def test_stacked_lstm_drops_between_layers_in_training_only() -> None:
    layer, lengths = StackedLSTM(5, 4, 2, dropout=0.5), torch.tensor([7, 5, 2])
    x = torch.randn(3, 7, 5)
    (first, states), (second, others) = layer(x, lengths), layer(x, lengths)
    assert not torch.equal(first, second)
    assert torch.equal(states[:, :, 0], others[:, :, 0])  # the bottom layer
    layer.eval()
    assert torch.equal(layer(x, lengths)[0], layer(x, lengths)[0])


def test_an_empty_sentence_leaves_zeros() -> None:
    outputs, final = StackedLSTM(5, 4, 2)(torch.randn(2, 3, 5), torch.tensor([0, 3]))
    assert (outputs[0] == 0).all()
    assert (final[0] == 0).all()


def test_no_recurrent_layer_asks_the_host() -> None:
    x, lengths = torch.randn(3, 7, 5, device="meta"), torch.tensor([7, 2, 5], device="meta")
    with torch.device("meta"):
        assert StackedLSTM(5, 4, 2)(x, lengths)[1].shape == (3, 2, 2, 4)
        assert Bidirectional(5, 4, kind=nn.LSTM)(x, lengths).shape == (3, 7, 8)


@pytest.mark.parametrize("device", DEVICES)
def test_one_step_of_a_gru_is_that_of_torch(device: str) -> None:
    cell = nn.GRUCell(5, 4, device=device, dtype=torch.float64)
    x, hidden = (torch.randn(3, width, device=device, dtype=torch.float64, requires_grad=True) for width in (5, 4))
    both = torch.cat([F.linear(hidden, cell.weight_hh, cell.bias_hh), hidden], 1)  # a part of a wider product
    found = gru_step(F.linear(x, cell.weight_ih, cell.bias_ih), both[:, :12], hidden)
    expected = cell(x, hidden)
    torch.testing.assert_close(found, expected)
    pull, wanted = torch.randn_like(found), [x, hidden, *cell.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, pull), torch.autograd.grad(expected, wanted, pull), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("device", DEVICES)
def test_one_step_of_an_lstm_is_that_of_torch(device: str) -> None:
    cell = nn.LSTMCell(5, 4, device=device, dtype=torch.float64)
    widths = (5, 4, 4)
    x, *state = (torch.randn(3, width, device=device, dtype=torch.float64, requires_grad=True) for width in widths)
    found = lstm_step(
        F.linear(x, cell.weight_ih, cell.bias_ih), F.linear(state[0], cell.weight_hh, cell.bias_hh), state[1]
    )
    expected = cell(x, (state[0], state[1]))
    torch.testing.assert_close(found, expected)
    pull, wanted = [torch.randn_like(part) for part in found], [x, *state, *cell.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, pull), torch.autograd.grad(expected, wanted, pull), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("late", [0, 3])
def test_an_lstm_step_by_step_is_the_whole(late: int) -> None:
    layers = nn.LSTM(5, 4, 2, batch_first=True).double()
    x = torch.randn(3, 6, 5, dtype=torch.float64, requires_grad=True)
    state = LSTMState(*torch.randn(2, 3, 2, 4, dtype=torch.float64, requires_grad=True))
    known, rest = torch.split(x, [5 - late, late], 2)
    steps = StepLSTM(layers, known.transpose(0, 1), state)
    found = torch.stack([steps(part if late else None) for part in rest.unbind(1)], 1)
    expected, final = run_lstm(layers, x, state)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(steps.state, final)
    again = state
    for t, part in enumerate(rest.unbind(1)):
        single = SingleLSTM(layers, known[:, t], again)
        torch.testing.assert_close(single(part if late else None), expected[:, t])
        again = single.state
    torch.testing.assert_close(again, final)
    pull, wanted = torch.randn_like(found), [x, *state, *layers.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, pull), torch.autograd.grad(expected, wanted, pull), rtol=1e-9, atol=1e-12
    )


def test_an_lstm_step_by_step_drops_between_layers_in_training_only() -> None:
    layers, state = nn.LSTM(5, 4, 2, dropout=0.5), LSTMState(torch.zeros(3, 2, 4), torch.zeros(3, 2, 4))
    known = torch.randn(6, 3, 5)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        steps = StepLSTM(layers, known, state)
        tops = torch.stack([steps() for _ in range(6)])
        return tops, steps.hidden[0]

    (first, bottom), (second, same) = run(), run()
    assert not torch.equal(first, second)
    assert torch.equal(bottom, same)
    layers.eval()
    assert torch.equal(run()[0], run()[0])


@pytest.mark.parametrize("beside", [False, True])
def test_a_gru_step_by_step_is_the_cell(beside: bool) -> None:
    cell, other = nn.GRUCell(5, 4).double(), torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(6, 3, 5, dtype=torch.float64, requires_grad=True)
    start = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    known, late = torch.split(x, [3, 2], 2)
    steps, hidden, found, shared = StepGRU(cell, known, beside=other if beside else None), start, [], []
    for part in late:
        shared.append(steps.project(hidden) if beside else F.linear(hidden, other))
        hidden = steps(part, hidden)
        found.append(hidden)
    hidden, expected, apart = start, [], []
    for part in x:
        apart.append(F.linear(hidden, other))
        hidden = cell(part, hidden)
        expected.append(hidden)
    pairs = ((found, shared), (expected, apart))
    results = [torch.cat([torch.stack(states), torch.stack(products)], -1) for states, products in pairs]
    torch.testing.assert_close(*results)
    pull, wanted = torch.randn_like(results[0]), [x, start, other, *cell.parameters()]
    gradients = [torch.autograd.grad(result, wanted, pull) for result in results]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)

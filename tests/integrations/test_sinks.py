import numpy as np
import torch
from torch import Tensor, nn

from regard.align import Softmax, Sparsemax
from regard.attention import Mask, trace
from regard.attention.output import CallOptions
from regard.integrations.sinks import WithSink, context_with_sinks


def by_hand(query: Tensor, keys: Tensor, values: Tensor, sinks: Tensor, scale: float, allowed: Tensor) -> list[Tensor]:
    """Weights and context of each row, one after the other, from exponentials."""
    weights = torch.zeros(*query.shape[:-1], keys.shape[-2], dtype=query.dtype)
    for item, head, row in np.ndindex(*query.shape[:-1]):
        exponentials = (keys[item, head] @ query[item, head, row] * scale).exp() * allowed[item, 0, row]
        weights[item, head, row] = exponentials / (exponentials.sum() + sinks[head].exp())
    return [weights, weights @ values]


def test_sinks_as_a_key_as_an_alignment_and_by_hand() -> None:
    """Contexts, gradients and the weights of a trace, for masks of every kind, more keys than queries among them."""
    generator, layer = torch.Generator().manual_seed(0), nn.Identity()

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    for num_queries, mask in ((5, Mask.causal()), (3, Mask.causal()), (4, None), (5, Mask.padding([0, 3]))):
        inputs = query, keys, values, sinks = draw(2, 3, num_queries, 4), draw(2, 3, 5, 4), draw(2, 3, 5, 6), draw(3)
        for tensor in inputs:
            tensor.requires_grad_()
        allowed = torch.ones(num_queries, 5, dtype=torch.bool) if mask is None else mask.dense(num_queries, 5)
        allowed = allowed.reshape(-1, 1, *allowed.shape[-2:]).expand(2, 1, num_queries, 5)
        weights, expected = by_hand(query, keys, values, sinks, 0.6, allowed)
        with trace() as seen:
            context = context_with_sinks(
                query, keys, values, sinks, 0.6, CallOptions(mask, None, None, 0, 0.0), trace_as=layer
            )
        torch.testing.assert_close(context, expected)
        np.testing.assert_allclose(seen[0].weights, weights.detach(), atol=1e-12)
        scores = torch.einsum("bhqd,bhkd->bhqk", query, keys) * 0.6
        torch.testing.assert_close(WithSink(Softmax(), sinks)(scores, allowed).weights, weights)
        outer = draw(*context.shape)
        for mine, theirs in zip(*(torch.autograd.grad(x, inputs, outer) for x in (context, expected)), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_a_sink_beside_another_alignment() -> None:
    """Sparsemax over four scores, the last of which is the sink: weights by hand, from the threshold."""
    scores, sinks = torch.tensor([[[[1.0, 0.5, -3.0]]]]), torch.tensor([0.9])
    weights = WithSink(Sparsemax(), sinks)(scores, None).weights
    torch.testing.assert_close(weights, torch.tensor([[[[1.0 - 0.4667, 0.5 - 0.4667, 0.0]]]]), atol=1e-4, rtol=0)

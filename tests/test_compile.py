"""Whole graphs: torch.compile(fullgraph=True), torch.export and autocast. No shape hook here: it breaks compilation."""

import copy

import pytest
import torch
from examples_of import aligns, scores
from table import every_third
from torch import Tensor, nn

from regard import Attention, Mask, MultiHead, attend, trace
from regard.align import Align, Entmax, Hard, Monotonic, Softmax, Sparsemax
from regard.attention import ALiBi, Cache, EdgeAttention, Position, Relative, Rotary
from regard.models import TransformerXL, TransformerXLConfig
from regard.score import Additive, Cosine, Distance, Dot, Edges, GraphAdditive, Score

pytestmark = [pytest.mark.bare, pytest.mark.no_cover]  # measuring lines makes compilation crawl

SCORES = [make() for make in scores(4).values()] + [Cosine(2.0, learned=True), Distance("gaussian", log=True)]
ALIGNS = [make() for make in aligns(4).values()]
ALIGNS += [Softmax(), Entmax(1.3), Entmax(1.5, learned=True), Hard("sample")]


def describe(part: object) -> str:
    return str(part).partition("\n")[0]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()


class Encoder(nn.Module):
    """What a model does: lengths in, masks made inside, a self- and a cross-attention."""

    def __init__(self, position: Position | None = None) -> None:
        super().__init__()
        self.inner = MultiHead(8, num_heads=2, position=position)
        self.cross = MultiHead(8, num_heads=2, attention=Attention(Additive(4, 4, 4), Entmax(1.5)))

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.inner(x, mask=Mask.causal()).context
        out = self.cross(x, memory, mask=Mask.padding(lengths), need_weights=True)
        assert out.weights is not None
        return x + out.context, out.weights


class OverEdges(nn.Module):
    """An attention over one edge list."""

    def __init__(self, layer: nn.Module, edges: Edges) -> None:
        super().__init__()
        self.layer, self.edges = layer, edges

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        return self.layer(query, keys, values, self.edges)


class OverPairs(nn.Module):
    """An attention over the pairs [2 e] of a batch."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        out = self.layer(query, keys, values, Edges.of(pairs, query.shape[-2], keys.shape[-2]))
        return out.context, out.weights


def example() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.tensor([3, 7])


def same_with_gradients(plain: nn.Module, compiled: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    results = []
    for model in (plain, compiled):
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        outputs = [out for out in model(*leaves) if out is not None]
        sum(out.square().sum() for out in outputs).backward()
        results.append((outputs, [leaf.grad for leaf in leaves], [p.grad for p in plain.parameters()]))
        plain.zero_grad()
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


# The eager backend proves that the whole graph is captured; inductor, which writes C++, is tried on a model below.
@pytest.mark.parametrize("score", every_third(SCORES), ids=describe)
def test_every_score_compiles(score: Score) -> None:
    layer = Attention(copy.deepcopy(score)).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    same_with_gradients(layer, compiled, (torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 3)))


@pytest.mark.parametrize("align", every_third(ALIGNS), ids=describe)
def test_every_alignment_compiles(align: Align) -> None:
    layer = Attention(Dot(), copy.deepcopy(align)).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    same_with_gradients(layer, compiled, (torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 3)))


@pytest.mark.slow  # the alignment is compiled as it is over all pairs, and the scores below are over edges
@pytest.mark.parametrize("align", [align for align in ALIGNS if align.has_edge_form], ids=describe)
def test_every_alignment_over_edges_compiles(align: Align) -> None:
    edges = Edges.of(torch.tensor([[2, 0, 0, 2, 1], [1, 0, 4, 3, 2]]), 4, 5)
    layer = EdgeAttention(Dot(), copy.deepcopy(align)).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    inputs = torch.randn(2, 4, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 2)
    same_with_gradients(OverEdges(layer, edges), OverEdges(compiled, edges), inputs)


@pytest.mark.parametrize("score", every_third(score for score in SCORES if score.has_edge_form), ids=describe)
def test_every_score_over_edges_compiles(score: Score) -> None:
    """The edge list is made inside, from a tensor of pairs, as a model that gets its graph as a batch does."""
    layer = OverPairs(EdgeAttention(copy.deepcopy(score)))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    pairs = torch.tensor([[2, 0, 0, 2, 1], [1, 0, 4, 3, 2]])
    same_with_gradients(layer, compiled, (torch.randn(2, 4, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 2), pairs))


@pytest.mark.slow
def test_attention_over_edges_compiles_with_inductor_and_is_exported() -> None:
    layer = OverPairs(EdgeAttention(GraphAdditive(4))).eval()
    pairs = torch.tensor([[2, 0, 0, 2, 1], [1, 0, 4, 3, 2]])
    inputs = torch.randn(2, 4, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 2), pairs
    same_with_gradients(layer, torch.compile(layer, fullgraph=True), inputs)
    count = torch.export.Dim("count", min=2, max=64)
    program = torch.export.export(layer, inputs, dynamic_shapes=(None, None, None, {1: count}))
    fewer = (*inputs[:3], pairs[:, 1:4])
    torch.testing.assert_close(program.module()(*fewer), layer(*fewer))


@pytest.mark.parametrize(  # Rotary: with inductor, below
    "position", [None, Relative(2, 4), pytest.param(ALiBi(2), marks=pytest.mark.slow)], ids=describe
)
def test_a_model_compiles(position: Position | None) -> None:
    model = Encoder(position)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    same_with_gradients(model, compiled, example())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch, where one graph ends
def test_a_compiled_transformer_xl_shares_its_table_of_distances() -> None:
    torch.manual_seed(0)
    sizes = {"dim": 8, "num_heads": 2, "hidden_dim": 12, "layers": 2, "memory": 3, "dropout": 0.0, "init_std": 0.4}
    model, tokens = TransformerXL(TransformerXLConfig(17, **sizes)), torch.randint(4, 17, (2, 7))
    compiled = torch.compile(model, backend="aot_eager")  # the way over a band is no graph
    _, state = model(tokens[:, :4])
    torch.testing.assert_close(compiled(tokens[:, :4]).logits, model(tokens[:, :4]).logits)
    torch.testing.assert_close(compiled(tokens[:, 4:], state).logits, model(tokens[:, 4:], state).logits)


@pytest.mark.slow
def test_a_model_compiles_with_inductor() -> None:
    model = Encoder(Rotary())
    same_with_gradients(model, torch.compile(model, fullgraph=True), example())


def test_a_compiled_model_takes_a_mask_and_other_lengths() -> None:
    layer = MultiHead(8, num_heads=2)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (4, 6, 9):
        x = torch.randn(2, length, 8)
        mask = Mask.padding(torch.tensor([2, length])) & Mask.window(3)
        torch.testing.assert_close(compiled(x, mask=mask).context, layer(x, mask=mask).context)


def test_a_compiled_decoder_carries_its_cache() -> None:
    layer = MultiHead(8, num_heads=2, position=Rotary())
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    x, cache, steps = torch.randn(2, 4, 8), Cache(), []
    with torch.no_grad():
        for t in range(4):
            out = compiled(x[:, t : t + 1], mask=Mask.causal(), cache=cache)
            cache = out.cache
            steps.append(out.context)
        torch.testing.assert_close(torch.cat(steps, 1), layer(x, mask=Mask.causal()).context)


def test_a_trace_of_a_compiled_layer_says_that_it_is_empty() -> None:
    layer = MultiHead(8, num_heads=2)
    with trace() as seen:
        torch.compile(layer, fullgraph=True, backend="aot_eager")(torch.randn(1, 3, 8))
    with pytest.raises(KeyError, match="Compiled and exported modules record nothing"):
        seen["multihead.0"]


def test_export_with_dynamic_batch_and_length() -> None:
    model = Encoder(Rotary()).eval()
    batch, queries, keys = (torch.export.Dim(name, min=2, max=64) for name in ("batch", "queries", "keys"))
    program = torch.export.export(
        model, example(), dynamic_shapes=({0: batch, 1: queries}, {0: batch, 1: keys}, {0: batch})
    )
    x, memory, lengths = torch.randn(3, 6, 8), torch.randn(3, 9, 8), torch.tensor([1, 9, 4])
    torch.testing.assert_close(program.module()(x, memory, lengths), model(x, memory, lengths))


@pytest.mark.parametrize(
    "align", every_third([Softmax(), Sparsemax(), Entmax(1.5), Monotonic(noise=0.0)]), ids=describe
)
def test_every_kind_of_alignment_exports(align: Align) -> None:
    layer = MultiHead(8, num_heads=2, attention=Attention(align=copy.deepcopy(align))).eval()
    x = torch.randn(2, 5, 8)
    program = torch.export.export(layer, (x,), {"need_weights": True})
    torch.testing.assert_close(program.module()(x, need_weights=True).weights, layer(x, need_weights=True).weights)


@pytest.mark.parametrize("align", ALIGNS, ids=describe)
@pytest.mark.parametrize("score", every_third(SCORES), ids=describe)
def test_autocast(score: Score, align: Align) -> None:
    layer = Attention(copy.deepcopy(score), copy.deepcopy(align)).eval()
    query, keys, values = (torch.randn(2, n, 4).requires_grad_() for n in (3, 5, 5))
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(query, keys, values, mask=Mask.padding([0, 4]))
    assert torch.isfinite(out.weights).all()
    assert (out.weights[0] == 0).all()
    out.context.float().sum().backward()
    assert values.grad is not None
    assert torch.isfinite(values.grad).all()
    assert query.grad is None or torch.isfinite(query.grad).all()


@pytest.mark.parametrize("need_weights", [True, False])  # with weights and gradients: the reference
def test_autocast_of_heads_is_near_full_precision(need_weights: bool) -> None:
    layer = MultiHead(64, num_heads=4)
    x = torch.randn(2, 9, 64)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, mask=Mask.causal(), need_weights=need_weights)
    torch.testing.assert_close(out.context.float(), layer(x, mask=Mask.causal()).context, atol=0.05, rtol=0.05)


def test_function_compiles() -> None:
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    query, keys, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 3)
    torch.testing.assert_close(compiled(query, keys, values).context, attend(query, keys, values).context)

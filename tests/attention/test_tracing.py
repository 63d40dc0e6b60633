"""The trace: names, labels, threads, files; and nothing changes because somebody looks."""

import gc
import json
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import ALiBi, Attention, Cache, Mask, MultiHead, Trace, attend, attend_edges, trace
from regard.attention.tracing import record_path, untraced, watched
from regard.base import ConfigError, MaskError, RegardError, ShapeError
from regard.score import Edges


class Block(nn.Module):
    """Self-attention, then attention to a memory without projections."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"own": MultiHead(4, num_heads=2), "cross": Attention()})

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers["own"](x).context
        return self.layers["cross"](x, x, x, need_weights=False).context


def model() -> nn.Module:
    return nn.Sequential(Block(), nn.ReLU(), Block())


NAMES = ["0.layers.own", "0.layers.cross", "2.layers.own", "2.layers.cross"]


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_in_a_model() -> None:
    net = model()
    with trace(net) as seen:
        net(torch.randn(3, 5, 4))
    assert list(seen) == NAMES
    assert len(seen) == 4
    assert [seen[name].weights.shape for name in NAMES] == [(3, 2, 5, 5), (3, 5, 5)] * 2
    assert [seen[name].axes for name in NAMES] == [("b", "h", "q", "k"), ("b", "q", "k")] * 2
    assert seen[1] is seen["0.layers.cross"]
    assert "0.layers.own [3, 2, 5, 5]" in repr(seen)
    assert {name: array.shape for name, array in seen.arrays().items()} == {n: seen[n].weights.shape for n in NAMES}


def test_names_without_a_model() -> None:
    net, x = model(), torch.randn(5, 4)
    with trace() as seen:
        net(x)
        attend(x, x, x)
    assert list(seen) == ["multihead.0", "attention.0", "multihead.1", "attention.1", "attend"]


def test_the_model_itself_and_strangers() -> None:
    layer, stranger, x = MultiHead(4, num_heads=2), MultiHead(4, num_heads=2), torch.randn(5, 4)
    with trace(layer) as seen:
        layer(x)
        stranger(x)
    assert list(seen) == ["multihead", "multihead.0"]


def test_one_attention_in_two_layers_has_two_names() -> None:
    shared = Attention()
    net = nn.ModuleDict({name: MultiHead(4, num_heads=2, attention=shared) for name in ("a", "b")})
    x = torch.randn(1, 5, 4)
    with trace(net) as seen:
        weights = {name: layer(x, need_weights=True).weights for name, layer in net.items()}
    assert list(seen) == ["a", "b"]
    for name in seen:
        assert_close(torch.from_numpy(seen[name].weights), weights[name])


@pytest.mark.parametrize("grad", [True, False])
def test_traced_layers_keep_the_kernel(grad: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, calls = F.scaled_dot_product_attention, []
    monkeypatch.setattr(
        "regard.attention.fused.F.scaled_dot_product_attention",
        lambda *args, **options: calls.append(1) or kernel(*args, **options),
    )
    net, x = model(), torch.randn(1, 5, 4)
    plain = net(x)
    assert len(calls) == 4
    with torch.set_grad_enabled(grad), trace(net) as seen:
        watched = net(x)
    assert len(calls) == 8
    assert_close(watched, plain, rtol=0, atol=0)
    for layer in net.modules():
        if isinstance(layer, Attention):
            layer.impl = "reference"
    with trace(net) as expected:
        net(x)
    assert len(calls) == 8
    for name in NAMES:
        assert_close(torch.from_numpy(seen[name].weights), torch.from_numpy(expected[name].weights))


def test_pattern() -> None:
    net, x = model(), torch.randn(1, 5, 4)
    for pattern, names in (("2.*", NAMES[2:]), ("?.layers.own", NAMES[::2])):
        with trace(net, layers=pattern) as seen:
            net(x)
        assert list(seen) == names


@pytest.mark.parametrize("impl", ["sdpa", "reference"])
def test_rows_and_heads_that_are_asked_for(impl: str) -> None:
    layer, x = MultiHead(8, num_heads=4, impl=impl), torch.randn(2, 5, 8)
    with trace(layer) as whole:
        layer(x)
    chosen = trace(layer, rows=[3, -5], heads=[2, -1], columns=list("abcde"))
    with chosen as seen, trace(layer, rows=[7], may_be_empty=True) as nothing:
        layer(x)
    assert seen[0].weights.shape == (2, 2, 2, 5)
    assert seen[0].queries == [3, 0]
    assert_close(torch.from_numpy(seen[0].weights), torch.from_numpy(whole[0].weights[:, [2, 3]][:, :, [3, 0]]))
    assert nothing[0].weights.shape == (2, 4, 0, 5)  # there is no such row
    seen.label(rows=list("ABCDE"))
    item = Trace.from_json(seen.to_json())[0].item(1)
    assert (item.rows, item.columns) == (["D", "A"], list("abcde"))
    assert item.weights.shape == (2, 2, 5)


@pytest.mark.bare
def test_rows_are_labels_or_numbers() -> None:
    with pytest.raises(ConfigError, match="labels, or whole numbers, not both"), trace(rows=["a", 1]):
        pass
    with pytest.raises(ConfigError, match=r"trace heads.*whole numbers"), trace(heads=["a"]):
        pass


def test_unknown_name_lists_the_known_ones() -> None:
    x = torch.randn(2, 4)
    with trace() as seen:
        with pytest.raises(KeyError, match="seen: nothing"):
            seen["attend"]
        attend(x, x, x)
    with pytest.raises(KeyError, match=r"no weights under 'decoder'; seen: attend\. Compiled and exported"):
        seen["decoder"]
    assert seen.get("decoder") is None
    assert "attend" in seen


def test_a_model_is_a_module() -> None:
    with pytest.raises((ConfigError, TypeError), match="model"), trace("model"):
        pass


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_are_those_of_the_output_which_stays_as_it_was() -> None:
    x = torch.randn(2, 5, 4)
    calls = [
        lambda **options: attend(x, x, x, **options),
        lambda **options: attention(x, x, x, **options),
        lambda **options: heads(x, **options),
    ]
    attention, heads = Attention(), MultiHead(4, num_heads=2)
    for call in calls:
        for need_weights in (True, False):
            plain = call(need_weights=need_weights)
            with trace() as seen:
                out = call(need_weights=need_weights)
            assert type(out) is type(plain)
            assert_close(out.context, plain.context)
            assert (out.weights is None) == (not need_weights)
            assert_close(torch.from_numpy(seen[0].weights), call(need_weights=True).weights.detach())


def test_records_are_copies() -> None:
    x = torch.randn(2, 5, 4)
    with trace() as seen:
        out = attend(x, x, x)
    out.weights.zero_()
    assert_close(seen["attend"].weights.sum(-1), np.ones((2, 5), dtype=np.float32))


def test_gradients_pass_by() -> None:
    layer, x = MultiHead(4, num_heads=2), torch.randn(2, 5, 4, requires_grad=True)
    (expected,) = torch.autograd.grad(layer(x).context.square().sum(), x)
    with trace() as seen:
        (gradient,) = torch.autograd.grad(layer(x).context.square().sum(), x)
    assert_close(gradient, expected)
    assert all(type(call) is np.ndarray for call in seen[0].calls)  # no graph hangs on them


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (torch.bfloat16, np.float32),
        (torch.float16, np.float32),
        (torch.float32, np.float32),
        (torch.float64, np.float64),
    ],
)
def test_dtypes(dtype: torch.dtype, kept: type) -> None:
    layer, x = MultiHead(4, num_heads=2).to(dtype), torch.randn(2, 5, 4, dtype=dtype)
    with trace() as seen:
        layer(x)
    assert seen[0].weights.dtype == kept
    np.testing.assert_allclose(seen[0].weights.sum(-1), 1, atol=1e-2)


def test_step_by_step_joins_the_queries() -> None:
    layer = MultiHead(4, num_heads=2, position=ALiBi(2))
    x = torch.randn(2, 5, 4)
    expected = layer(x, mask=Mask.causal(), need_weights=True).weights.detach().numpy()
    with trace(layer) as seen:
        cache = Cache()
        for step in range(5):  # keys grow with the cache
            cache = layer(x[:, step : step + 1], mask=Mask.causal(), cache=cache).cache
    assert [call.shape[-1] for call in seen[0].calls] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(seen["multihead"].weights, expected, atol=1e-6)
    with trace() as seen:
        for step in range(5):  # keys stay
            attend(x[:, step : step + 1], x, x)
    np.testing.assert_allclose(seen["attend"].weights, attend(x, x, x).weights.numpy(), atol=1e-6)


def test_several_batch_shapes_stay_apart() -> None:
    layer = MultiHead(4, num_heads=2)
    with trace() as seen:
        layer(torch.randn(1, 3, 4))
        layer(torch.randn(2, 3, 4))
    assert [call.shape for call in seen[0].calls] == [(1, 2, 3, 3), (2, 2, 3, 3)]
    with pytest.raises(ShapeError, match="several batch shapes"):
        _ = seen[0].weights


def test_repr_of_several_batch_shapes() -> None:
    with trace() as seen:
        for batch in (1, 2):
            attend(*[torch.randn(batch, 3, 4)] * 3)
    assert "attend" in repr(seen)


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_of_one_sentence() -> None:
    x = torch.randn(1, 3, 4)
    with trace(rows=["a", "b", "c"], columns=["x", "y", "z"]) as seen:
        MultiHead(4, num_heads=2)(x)
    item = seen[0].item()
    assert (item.rows, item.columns) == (["a", "b", "c"], ["x", "y", "z"])
    assert item.weights.shape == (2, 3, 3)
    assert item.axes == ("h", "q", "k")


def test_labels_of_each_sentence_cut_the_padding() -> None:
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 4, 4)
    rows, columns = [["a", "b", "c"], ["d"]], [["w", "x"], ["w", "x", "y", "z"]]
    with trace(rows=rows, columns=columns) as seen:
        attend(query, keys, keys, mask=Mask.padding([2, 4]))
    for index, shape in enumerate([(3, 2), (1, 4)]):
        item = seen["attend"].item(index)
        assert item.weights.shape == shape
        assert (item.rows, item.columns) == (rows[index], columns[index])
        np.testing.assert_array_equal(item.weights, seen["attend"].weights[index, : shape[0], : shape[1]])
        again = item.item()  # one sentence of one sentence
        np.testing.assert_array_equal(again.weights, item.weights)


def test_an_empty_sentence_has_no_rows() -> None:
    x = torch.randn(2, 3, 4)
    with trace(rows=[[], ["a"]]) as seen:
        attend(x, x, x)
    assert seen["attend"].item(0).weights.shape == (0, 3)


def test_items_of_several_batch_axes() -> None:
    x = torch.randn(2, 3, 5, 4)
    with trace() as seen:
        attend(x, x, x)
        MultiHead(4, num_heads=2)(x)
        MultiHead(4, num_heads=2)(x[0, 0])
    np.testing.assert_array_equal(seen["attend"].item(4).weights, seen["attend"].weights[1, 1])
    np.testing.assert_array_equal(seen["multihead.0"].item(5).weights, seen["multihead.0"].weights[1, 2])
    assert seen["multihead.1"].item().weights.shape == (2, 5, 5)


def test_labels_by_pattern_before_and_after() -> None:
    net, x = model(), torch.randn(1, 2, 4)
    with trace(net, rows=["a", "b"]) as seen:
        seen.label("2.*", rows=["c", "d"])
        net(x)
        seen.label("*.cross", columns=["x", "y"])
    assert [record.rows for record in seen.values()] == [["a", "b"]] * 2 + [["c", "d"]] * 2
    assert [record.columns for record in seen.values()] == [None, ["x", "y"]] * 2


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_round_trip(tmp_path: Path) -> None:
    net, x = model(), torch.randn(2, 3, 4)
    with trace(net, rows=["größe", "→", "日本"], columns=[["a"], ["b", "c", "“d”"]]) as seen:
        net(x)
    text = seen.to_json(digits=4)
    assert "größe" in text
    assert json.loads(text)["records"][0]["axes"] == ["b", "h", "q", "k"]
    seen.save(tmp_path / "new" / "seen.json", digits=4)
    assert (tmp_path / "new" / "seen.json").read_text(encoding="utf-8") == text
    back = Trace.from_json(text)
    assert list(back) == list(seen)
    assert back.to_json(digits=4) == text
    for name, record in seen.items():
        np.testing.assert_allclose(back[name].weights, record.weights, atol=0.51e-4)
        assert (back[name].rows, back[name].columns, back[name].axes) == (record.rows, record.columns, record.axes)
        assert back[name].item(1).columns == ["b", "c", "“d”"]


def test_json_without_keys() -> None:
    with trace() as seen:
        attend(torch.randn(2, 3, 4), torch.randn(2, 0, 4), torch.randn(2, 0, 4))
    assert Trace.from_json(seen.to_json())["attend"].weights.shape == (2, 3, 0)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "regard.trace", "version": 2, "records": []}'])
def test_foreign_json(text: str) -> None:
    with pytest.raises(RegardError, match="this is not"):
        Trace.from_json(text)


# ── contexts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nested_traces_both_see() -> None:
    net, x = model(), torch.randn(1, 3, 4)
    with trace(net) as outer:
        net(x)
        with trace(net, layers="*.own") as inner:
            net(x)
        net(x)
    assert list(outer) == NAMES
    assert list(inner) == [NAMES[0], NAMES[2]]
    assert len(outer[0].calls) == 3
    assert len(inner[0].calls) == 1


def test_a_trace_that_nobody_holds_is_free_at_once() -> None:
    """With the memory of its arrays, which is scarce beside a GPU: no ring of objects waits for the collector."""
    model, x = torch.nn.MultiheadAttention(4, 2), torch.randn(3, 1, 4)
    gc.disable()
    try:
        with trace(model) as seen:
            model(x, x, x)
        held = weakref.ref(seen)
        assert len(seen) == 1
        del seen
        assert held() is None
    finally:
        gc.enable()


def test_an_exception_ends_the_trace() -> None:
    x = torch.randn(1, 3, 4)
    with pytest.raises(MaskError), trace() as seen:
        attend(x, attend(x, x, x).context, x, mask=x[0, 0])
    attend(x, x, x)
    assert len(seen["attend"].calls) == 1


def test_nothing_is_seen_outside() -> None:
    x = torch.randn(1, 3, 4)
    with trace() as seen:
        pass
    attend(x, x, x)
    assert len(seen) == 0
    assert repr(seen) == "Trace()"


def test_nothing_is_seen_inside_of_untraced_and_all_of_it_after() -> None:
    layer = MultiHead(4, num_heads=2)
    with trace(layer) as seen:
        with untraced():
            layer(torch.zeros(1, 3, 4))
            assert not watched(layer)
        with pytest.raises(ShapeError), untraced():
            layer(torch.zeros(1, 3, 5))
        assert not seen
        layer(torch.zeros(1, 2, 4))
    assert [record.weights.shape for record in seen.values()] == [(1, 2, 2, 2)]


def test_threads_see_their_own() -> None:
    layer, barrier, found = MultiHead(4, num_heads=2), threading.Barrier(2, timeout=1500), {}

    def work(length: int) -> None:
        with trace(layer) as seen:
            barrier.wait()  # both traces are open
            for _ in range(5):
                layer(torch.randn(1, length, 4))
            barrier.wait()  # and stay open until both are done
        found[length] = [call.shape for call in seen["multihead"].calls]

    threads = [threading.Thread(target=work, args=(length,)) for length in (2, 3)]
    with trace(layer) as outside:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {length: [(1, 2, length, length)] * 5 for length in (2, 3)}
    assert len(outside) == 0


def test_edges_survive_json(tmp_path: Path) -> None:
    edges, x = Edges.of(torch.tensor([[0, 2, 1], [1, 0, 1]]), 3, 2), torch.randn(2, 3, 4)
    with trace(rows=["a", "b", "c"]) as seen:
        attend_edges(x, x[:, :2], x[:, :2], edges)
    seen.save(tmp_path / "trace.json")
    record, original = Trace.from_json((tmp_path / "trace.json").read_text())["attend_edges"], seen["attend_edges"]
    assert record.axes == original.axes == ("b", "e")
    assert record.edges[0].pairs.tolist() == [[0, 2, 1], [1, 0, 1]]
    assert record.rows == ["a", "b", "c"]
    assert record.dense().shape == (2, 3, 2)
    torch.testing.assert_close(torch.from_numpy(record.dense()), torch.from_numpy(original.dense()), atol=1e-6, rtol=0)
    damaged = seen.to_json().replace("[[0, 2, 1], [1, 0, 1]]", "[[0, 2], [1, 0]]")
    with pytest.raises(RegardError, match="this trace is damaged: got 3 weights for 2 edges"):
        Trace.from_json(damaged)


def test_several_calls_over_edges_are_read_one_by_one() -> None:
    lists = [Edges.of(torch.tensor([[0, 1], [1, 1]]), 2), Edges.of(torch.tensor([[1], [0]]), 2)]
    x = torch.randn(2, 4)
    with trace() as seen:
        for edges in lists:
            attend_edges(x, x, x, edges)
    record = seen["attend_edges"]
    assert [call.shape for call in record.calls] == [(2,), (1,)]
    assert record.dense(1).tolist() == [[0.0, 0.0], [1.0, 0.0]]
    with pytest.raises(ShapeError, match=r"attend_edges was called over several edge lists: got 2 calls. Try: read"):
        _ = record.weights


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Looker(nn.Module):
    """Looks at three places, and stops after the second in the first picture."""

    def forward(self, places: Tensor) -> Tensor:
        active = torch.ones(places.shape[:2], dtype=torch.bool)
        active[0, 2] = False
        record_path(self, places, active)
        return places


def test_places_of_a_model_that_looks() -> None:
    looker, places = Looker(), torch.rand(2, 3, 2) * 2 - 1
    with trace(looker) as seen:
        looker(places)
    record = seen["looker"]
    assert_close(torch.from_numpy(record.places), places, rtol=0, atol=0)
    assert record.active.tolist() == [[True, True, False], [True, True, True]]
    assert record.axes == ("b", "t", "2")
    assert [record.item(number).places.shape for number in (0, 1)] == [(2, 2), (3, 2)]
    assert seen.arrays()["looker"] is record.places
    assert repr(seen) == "Trace(looker [2, 3, 2])"
    with pytest.raises(ShapeError, match=r"looker has no weights: got places\. Try: read \.places and \.active"):
        _ = record.weights
    with trace(looker, rows=[0, -1]) as ends:
        looker(places)
    assert_close(torch.from_numpy(ends["looker"].places), places[:, [0, 2]], rtol=0, atol=0)
    assert ends["looker"].queries == [0, 2]
    with trace(looker, layers="other", may_be_empty=True) as nothing:
        looker(places)
    assert not nothing


def test_places_in_files() -> None:
    looker, layer, places = Looker(), MultiHead(4, num_heads=2), torch.rand(2, 3, 2) * 2 - 1
    with trace() as seen:
        looker(places)
        layer(torch.randn(1, 3, 4))
    again = Trace.from_json(seen.to_json())
    assert list(again) == ["looker.0", "multihead.0"]
    np.testing.assert_allclose(again["looker.0"].places, places, atol=1e-6)
    assert np.array_equal(again["looker.0"].active, seen["looker.0"].active)
    np.testing.assert_allclose(again["multihead.0"].weights, seen["multihead.0"].weights, atol=1e-6)
    assert again.to_json() == seen.to_json()


def test_old_files_load() -> None:
    """As written before there were places, and before there were rows to choose."""
    record = {
        "name": "a",
        "axes": ["q", "k"],
        "rows": None,
        "columns": ["x", "y"],
        "shape": [1, 2],
        "weights": [[0.25, 0.75]],
    }
    text = json.dumps({"format": "regard.trace", "version": 1, "records": [record]})
    assert Trace.from_json(text)["a"].weights.tolist() == [[0.25, 0.75]]


def test_places_that_are_not_there() -> None:
    looker, places = Looker(), torch.rand(2, 3, 2)
    with trace() as seen:
        looker(places)
        looker(places)
        attend(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    with pytest.raises(ShapeError, match=r"looker\.0 was called several times: got 2 paths.*read \.paths"):
        _ = seen["looker.0"].places
    assert len(seen["looker.0"].paths) == 2
    with pytest.raises(ShapeError, match=r"attend looked at no places: got 0 paths.*read \.weights"):
        _ = seen["attend"].places
    with trace(), pytest.raises(RegardError, match="a trace of meta tensors"):
        looker(torch.zeros(2, 3, 2, device="meta"))

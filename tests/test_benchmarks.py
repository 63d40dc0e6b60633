"""benchmarks/: a wrong result is refused before anything is timed, and the history stays readable."""

import ast
import copy
import csv
import importlib
import importlib.util
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
Load = Callable[[str], ModuleType]
CLOCKS = {"side_by_side", "do_bench", "do_bench_cudagraph", "perf_counter", "elapsed_time"}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a benchmark as its own command line does, from its folder; forget it afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in {path.stem for path in BENCHMARKS.glob("*.py")} - before:
        sys.modules.pop(name, None)


def results(error: float = 0.0, *, number: int = 3) -> dict[str, Any]:
    """An output and some gradients; every entry is off by the share `error`, up and down in turns."""
    torch.manual_seed(0)
    exact = [torch.randn(8, 16, dtype=torch.float64) for _ in range(number + 1)]
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(8)
    output, *gradients = (tensor * (1 + error * sign) for tensor in exact)
    return {"output": output, "gradients": gradients}


def test_twice_the_error_of_eager_passes(load: Load) -> None:
    gate = load("gate")
    errors = gate.check_results({"ours": results(1.9e-3)}, eager=results(1e-3), exact=results())
    assert errors["ours"]["output"] == pytest.approx(1.9e-3)
    assert errors["ours"]["gradients"] == pytest.approx(1.9e-3)


def test_more_than_twice_is_refused(load: Load) -> None:
    gate = load("gate")
    with pytest.raises(gate.WrongResult, match=r"ours is wrong: output is off by 2.1e-03, and 2.0e-03 is allowed"):
        gate.check_results({"ours": results(2.1e-3)}, eager=results(1e-3), exact=results())


def test_an_error_within_rounding_passes(load: Load) -> None:
    """Eager may be exact by luck."""
    gate = load("gate")
    gate.check_results({"ours": results(1e-7)}, eager=results(), exact=results())
    with pytest.raises(gate.WrongResult):
        gate.check_results({"ours": results(1e-6)}, eager=results(), exact=results())
    gate.check_results({"ours": results(1e-6)}, eager=results(), exact=results(), rounding=2.0**-10)


def spoil(kind: str) -> dict[str, Any]:
    wrong = results(1e-4)
    if kind == "one gradient of three":
        wrong["gradients"][1] = -wrong["gradients"][1]
    elif kind == "one row":
        wrong["output"][3] = 0
    elif kind == "not a number":
        wrong["gradients"][2][0, 0] = torch.nan
    elif kind == "another shape":
        wrong["output"] = wrong["output"][:, :8]
    elif kind == "one gradient fewer":
        wrong["gradients"].pop()
    else:
        del wrong["gradients"]
    return wrong


@pytest.mark.parametrize(
    "kind",
    ["one gradient of three", "one row", "not a number", "another shape", "one gradient fewer", "no gradients"],
)
def test_a_wrong_kernel_is_refused(load: Load, kind: str) -> None:
    gate = load("gate")
    with pytest.raises(gate.WrongResult, match="ours is wrong"):
        gate.check_results({"ours": spoil(kind)}, eager=results(1e-4), exact=results())


def test_a_gradient_that_is_zero_by_theory(load: Load) -> None:
    """What is computed of it is rounding, and no reason to refuse; a real gradient there is one."""
    gate = load("gate")
    exact, eager, ours = results(), results(1e-4), results(1e-4)
    exact["gradients"][0] = torch.zeros(8, 16, dtype=torch.float64)
    eager["gradients"][0] = torch.full((8, 16), 1e-9, dtype=torch.float64)
    ours["gradients"][0] = torch.full((8, 16), 9e-9, dtype=torch.float64)
    gate.check_results({"ours": ours}, eager=eager, exact=exact)
    ours["gradients"][0] = torch.full((8, 16), 1e-2, dtype=torch.float64)
    with pytest.raises(gate.WrongResult, match=r"gradients\[0\]"):
        gate.check_results({"ours": ours}, eager=eager, exact=exact)


class Kinked(nn.Module):
    """Layers with ReLU, whose sums are formed in so many parts."""

    def __init__(self) -> None:
        super().__init__()
        self.widen = nn.ModuleList(nn.Linear(16, 64) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(64, 16) for _ in range(3))

    def forward(self, x: Tensor, parts: int = 1) -> Tensor:
        for widen, narrow in zip(self.widen, self.narrow, strict=True):
            x = x + in_parts(F.relu(in_parts(x, widen, parts)), narrow, parts)
        return x


def in_parts(x: Tensor, layer: nn.Module, parts: int) -> Tensor:
    """A linear layer as a sum of products over some of the columns each."""
    columns = torch.randperm(x.shape[-1], generator=torch.Generator().manual_seed(parts)).chunk(parts)
    assert isinstance(layer, nn.Linear)
    total: Tensor = sum((x[:, some] @ layer.weight[:, some].mT for some in columns), start=layer.bias)
    return total


def kinked_results(model: nn.Module, x: Tensor, parts: int = 1) -> dict[str, Any]:
    out = model(x, parts)
    return {"output": out, "gradients": torch.autograd.grad(out.square().sum(), list(model.parameters()))}


def kinked_case(gate: ModuleType, seed: int) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    """A model, its input, and what a gate compares; one input of a ReLU is zero but for rounding."""
    torch.manual_seed(seed)
    model, x = Kinked(), torch.randn(40, 16)
    with torch.no_grad():
        layer = model.widen[0]
        layer.bias[3] = -(x[7].double() @ layer.weight[3].double()).float()
    wide, x_wide = copy.deepcopy(model).double(), x.double()
    nudged = []
    for draw in range(gate.NUDGES):
        moved = copy.deepcopy(wide)
        gate.nudge(moved, draw)
        nudged.append(kinked_results(moved, x_wide))
    known = {"eager": kinked_results(model, x), "exact": kinked_results(wide, x_wide), "nudged": nudged}
    return model, x, known


@pytest.mark.parametrize("seed", range(12))
def test_every_order_of_a_sum_passes(load: Load, seed: int) -> None:
    """Orders give a ReLU near zero one sign or the other: both gradients are right, and far from each other."""
    gate = load("gate")
    model, x, known = kinked_case(gate, seed)
    orders = {f"{parts} parts": kinked_results(model, x, parts) for parts in range(1, 17)}
    assert gate.judge_results(orders, **known)[1] == {}


def test_orders_of_a_sum_differ_by_jumps(load: Load) -> None:
    """Without nudged results some right order is refused: the case above is the one that it means to be."""
    gate = load("gate")
    refused = 0
    for seed in range(12):
        model, x, known = kinked_case(gate, seed)
        orders = {f"{parts} parts": kinked_results(model, x, parts) for parts in range(1, 17)}
        refused += len(gate.judge_results(orders, eager=known["eager"], exact=known["exact"])[1])
    assert refused > 0


@pytest.mark.parametrize("kind", ["no bias", "another column", "half of a row", "not a number"])
def test_a_wrong_kernel_with_kinks_is_refused(load: Load, kind: str) -> None:
    gate = load("gate")
    for seed in range(12):
        model, x, known = kinked_case(gate, seed)
        wrong = copy.deepcopy(model)
        weight, bias = wrong.widen[1].weight.data, wrong.widen[1].bias.data
        if kind == "no bias":
            bias.zero_()
        elif kind == "another column":
            weight[:, [2, 3]] = weight[:, [3, 2]]
        elif kind == "half of a row":
            weight[5, :8] = 0
        else:
            weight[5, 0] = torch.nan
        errors, refused = gate.judge_results({"wrong": kinked_results(wrong, x), "right": known["eager"]}, **known)
        assert [*refused] == ["wrong"]
        assert [*errors] == ["wrong", "right"]


def test_a_refusal_is_said_at_once_and_ends_with_status_1(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    refusals = load("gate").Refusals()
    refusals.end()
    refusals.add(["one is wrong"])
    assert capsys.readouterr().out == "!!! REFUSED, not timed: one is wrong\n"
    with pytest.raises(SystemExit) as ended:
        refusals.end()
    assert ended.value.code == 1
    assert "1 refused" in capsys.readouterr().out


def test_attention_refuses_kernels_that_forget_a_key(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """The gates of the GPU's benchmark, with calls that need no Triton."""
    benchmark = load("attention_gpu")

    def forgetful(query: Tensor, keys: Tensor, values: Tensor, *rest: Tensor) -> Tensor:
        kept: Tensor = benchmark.eager(query, keys[:, 1:], values[:, 1:], *rest)
        return kept

    assert benchmark.gate_size({"forgetful": forgetful, "right": benchmark.summed}, 9, 4) == {"forgetful"}
    assert "REFUSED, not timed: length 9: forgetful is wrong" in capsys.readouterr().out
    dots = benchmark.ScaledDot()
    benchmark.gate_dots("right", dots, 8, None, 16)

    def forgetful_dots(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, keys[..., 1:, :], values[..., 1:, :])

    assert not benchmark.passed(benchmark.gate_dots, "forgetful", dots, 8, forgetful_dots, 16)
    with pytest.raises(SystemExit):
        benchmark.REFUSALS.end()


@pytest.mark.slow  # small_cases.py has the same kernels at more shapes
def test_kernels_for_small_models_are_checked_without_a_gpu() -> None:
    env = os.environ | {
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(BENCHMARKS.parent / "src"),
    }
    command = [sys.executable, str(BENCHMARKS / "small_gpu.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("attention, causal", "loss", "residual, dropout, norm", "hidden", "three projections"):
        assert f"{name}, torch.float32: output" in done.stdout


@pytest.mark.slow
def test_attention_checks_itself_without_a_gpu() -> None:
    """`--check` runs every gate through Triton's interpreter, which wants a process of its own."""
    command = [sys.executable, str(BENCHMARKS / "attention_gpu.py"), "--check"]
    env = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "triton: output" in done.stdout
    assert "16 rows: weights" in done.stdout


@pytest.mark.slow  # it starts a process
def test_an_earlier_version_searches_beside_this_one(load: Load, tmp_path: Path) -> None:
    search = load("plain_search")
    how = search.Search(beams=2, length_penalty=0.0)
    sentences = search.PlainSentences(3, torch.device("cpu"), ragged=True, words=40)
    with search.Earlier(BENCHMARKS.parent, "rnnsearch", 3, ragged=True, words=40) as earlier:
        assert [earlier.find(how, 4096, half=half) for half in (False, True)] == [sentences.tokens] * 2
    with pytest.raises(SystemExit, match="has no src/regard"):
        search.Earlier(tmp_path, "rnnsearch", 3, ragged=False, words=40)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*_gpu.py")), ids=lambda path: path.stem)
def test_help_needs_no_gpu(
    load: Load, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    benchmark = load(path.stem)
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_every_benchmark_has_a_gate() -> None:
    timed = [path for path in BENCHMARKS.glob("*.py") if path.stem != "timing" and names_in(path) & CLOCKS]
    assert len(timed) == 19
    assert [path.name for path in timed if not {"check_results", "judge_results"} & names_in(path)] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("multihead", ["--batch=1", "--length=4", "--dim=8", "--heads=2"]),
        ("additive_cpu", ["--batch=1", "--length=6", "--width=4"]),
        ("additive_cpu", ["--batch=1", "--length=6", "--width=4", "--weights"]),
        ("complexity", []),
    ],
)
def test_nothing_is_timed_behind_a_closed_gate(
    load: Load, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str]
) -> None:
    benchmark, gate = load(name), load("gate")

    def refuse(*_: object, **__: object) -> None:
        raise gate.WrongResult("refused")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the clock ran")

    monkeypatch.setattr(benchmark, "check_results", refuse)
    monkeypatch.setattr(benchmark, "side_by_side", never)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit, match="refused"):
        benchmark.main()


def test_additive_refuses_a_kernel_that_forgets_a_key(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark, gate = load("additive_cpu"), load("gate")

    def forgetful(query: Tensor, keys: Tensor, values: Tensor, v: Tensor) -> Tensor:
        kept: Tensor = benchmark.reference(query, keys[:, 1:], values[:, 1:], v)
        return kept

    monkeypatch.setitem(benchmark.WAYS, "blocked", forgetful)
    monkeypatch.setattr(sys, "argv", ["additive_cpu", "--batch=1", "--length=6", "--width=4", "--no-save"])
    with pytest.raises(gate.WrongResult, match="blocked is wrong"):
        benchmark.main()


def test_additive_refuses_weights_without_their_part_of_the_gradient(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, gate = load("additive_cpu"), load("gate")

    def detached(*given: Tensor) -> tuple[Tensor, Tensor]:
        context, weights = benchmark.reference_with_weights(*given)
        return context, weights.detach()

    monkeypatch.setitem(benchmark.WITH_WEIGHTS, "blocked", detached)
    arguments = ["--batch=1", "--length=6", "--width=4", "--weights", "--no-save"]
    monkeypatch.setattr(sys, "argv", ["additive_cpu", *arguments])
    with pytest.raises(gate.WrongResult, match="blocked is wrong"):
        benchmark.main()


def test_layers_of_the_table_of_costs_are_right(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("complexity").gate()
    assert "restricted attention: output" in capsys.readouterr().out


def test_ports_see_the_same_patches(load: Load) -> None:
    glimpses = load("glimpses_gpu")
    images, where = torch.rand(5, 2, 12, 12), torch.rand(5, 2) * 2 - 1
    assert torch.equal(*(look(images, where, 4, 2) for look in (glimpses.loop, glimpses.vectorised)))


def test_glimpses_refuse_patches_beside_the_place(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    glimpses = load("glimpses_gpu")
    pool = glimpses.canvases()
    assert glimpses.gate(torch.device("cpu"), pool, number=4) == {}
    right = glimpses.retina
    monkeypatch.setattr(glimpses, "retina", lambda images, where, **sizes: right(images, where + 2 / 60, **sizes))
    refused = glimpses.gate(torch.device("cpu"), pool, number=4)
    assert [*refused] == ["regard, eager"]
    assert refused["regard, eager"].startswith("regard, eager is wrong: patches")


def test_recurrent_ways_agree(load: Load) -> None:
    benchmark, gate = load("rnn_gpu"), load("gate")
    case = benchmark.Case("luong", torch.device("cpu"), small=True)
    assert case.gate() == {}
    case.start = {name: 1.5 * tensor if name.startswith("to_logits") else tensor for name, tensor in case.start.items()}
    other = case.results(plain=False, settings=benchmark.WAYS["eager"])
    fresh = benchmark.Case("luong", torch.device("cpu"), small=True)
    exact = fresh.results(plain=True, settings=benchmark.Train(lr=1e-4), exact=True)
    with pytest.raises(gate.WrongResult):
        gate.check_results({"other": other}, eager=exact, exact=exact)


def test_lstmn_ways_agree(load: Load) -> None:
    benchmark, gate = load("lstmn_gpu"), load("gate")
    case = benchmark.Case(6, torch.device("cpu"), small=True)
    assert case.gate() == {}
    exact = case.results(plain=True, settings=benchmark.Train(lr=1e-4), exact=True)
    case.start = {name: 1.01 * tensor if "to_keys" in name else tensor for name, tensor in case.start.items()}
    other = case.results(plain=False, settings=benchmark.WAYS["ours, eager"][1])
    with pytest.raises(gate.WrongResult):
        gate.check_results({"other": other}, eager=exact, exact=exact)


def test_transformer_xl_and_the_published_way_agree(load: Load) -> None:
    benchmark, gate = load("transformer_xl_gpu"), load("gate")
    case = benchmark.Case(benchmark.SMALL, 4, 8, torch.device("cpu"))
    assert case.gate("tf32") == {}
    exact = case.results(impl="published", settings=benchmark.Train(lr=1e-4), exact=True)
    case.start = {name: 1.01 * tensor if "position" in name else tensor for name, tensor in case.start.items()}
    other = case.results(impl="sdpa", settings=benchmark.settings_of("tf32", captured=False))
    with pytest.raises(gate.WrongResult):
        gate.check_results({"other": other}, eager=exact, exact=exact)


def test_a_memory_and_one_window_agree_and_a_short_memory_does_not(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("xl_evaluation_gpu")
    cpu = torch.device("cpu")
    assert benchmark.compare(benchmark.SMALL, cpu) < 1e-9
    right = benchmark.TransformerXL.initial_state
    monkeypatch.setattr(
        benchmark.TransformerXL, "initial_state", lambda self, batch, memory: right(self, batch, min(memory, 3))
    )
    assert benchmark.compare(benchmark.SMALL, cpu) > 1e-3


def test_the_turing_machine_and_its_port_agree(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("ntm_gpu")
    assert benchmark.gate(torch.device("cpu"), small=True) == {}
    right = benchmark.NTM._advance

    def late(self: Any, emitted: Tensor, state: Any) -> Any:
        return right(self, emitted, state)._replace(weights=state.weights)

    monkeypatch.setattr(benchmark.NTM, "_advance", late)
    assert [*benchmark.gate(torch.device("cpu"), small=True)] == ["regard, eager"]


def test_graph_attention_in_plain_operations_passes_and_a_wrong_one_does_not(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = load("gat_gpu")
    edges = benchmark.graph(24, 90, torch.device("cpu"))
    assert (len(edges), edges.mask().diagonal().all().item()) == (90, True)
    monkeypatch.setattr(benchmark, "ways_here", lambda device: ["regard, plain"])
    assert benchmark.gate(torch.device("cpu"), small=True) == {}
    right = benchmark.our_layer

    def wrong(impl: str, device: torch.device, *, seed: int | None = None) -> nn.Module:
        layer = right(impl, device, seed=seed)
        if impl == "triton":  # the softmax over targets of a source, and not over sources of a target
            layer.forward = lambda nodes, edges: type(layer).forward(
                layer, nodes, benchmark.Edges(edges.sources, edges.targets, edges.num_keys, edges.num_queries)
            )
            layer.attention.impl = "reference"
        return layer

    monkeypatch.setattr(benchmark, "ways_here", lambda device: ["regard, plain", "regard, fused"])
    monkeypatch.setattr(benchmark, "our_layer", wrong)
    assert [*benchmark.gate(torch.device("cpu"), small=True)] == ["regard, fused"]


def test_local_attention_in_blocks_passes_and_a_wrong_one_does_not(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load("local_gpu")
    assert benchmark.gate(torch.device("cpu"), small=True) == {}
    right = benchmark.ways

    def wrong(local: Any, places: int, device: torch.device) -> dict[str, Any]:
        ways = right(local, places, device)
        shorter = benchmark.Local1D(8, 0)  # blocks that do not see the block before
        return {**ways, "blocks": lambda q, k, v: shorter.attend(q, k, v, benchmark.causal)}

    monkeypatch.setattr(benchmark, "ways", wrong)
    assert [*benchmark.gate(torch.device("cpu"), small=True)] == ["blocks"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_traced_weights_pass_and_wrong_ones_do_not(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    from tiny_transformers import import_transformers

    import_transformers()
    benchmark = load("trace_gpu")
    assert benchmark.gate(torch.device("cpu"), tokens=40) == {}
    right = benchmark.traced

    def wrong(model: nn.Module, ids: Tensor, rows: list[int]) -> tuple[Tensor, list[Tensor]]:
        logits, weights = right(model, ids, [row - 1 for row in rows])  # the rows before
        return logits + 1e-3, weights

    monkeypatch.setattr(benchmark, "traced", wrong)
    assert [*benchmark.gate(torch.device("cpu"), tokens=40)] == ["traced", "logits"]


def test_searches_must_agree_on_95_per_cent(load: Load) -> None:
    benchmark, gate = load("translation_cpu"), load("gate")
    expected = [[number] for number in range(40)]
    assert benchmark.share_of_equal([*expected[:38], [0], [0]], expected) == 0.95
    benchmark.check_share("ours", 0.95)
    with pytest.raises(gate.WrongResult, match=r"only 92.5% of the translations"):
        benchmark.check_share("ours", benchmark.share_of_equal([*expected[:37], [0], [0], [0]], expected))


def test_validation_chooses_and_the_test_set_is_seen_once(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second settings are better on val and worse on the test set: they are what is shown."""
    benchmark = load("translation_gpu")
    judged: list[tuple[str, str]] = []

    class Task:
        codecs = ()

        def __init__(self, config: object) -> None:
            pass

        def evaluate(self, model: str, split: str) -> SimpleNamespace:
            judged.append((model, split))
            return SimpleNamespace(figures={"tokenized_bleu": {"first": 40.0, "second": 30.0}[model]})

    runs = iter([("first", 20.0), ("second", 25.0)])

    def trainer(recipe: object, task: object, device: object) -> SimpleNamespace:
        model, valid = next(runs)
        clock, stepper = SimpleNamespace(seconds=1.0), SimpleNamespace(preparing=0.0)
        return SimpleNamespace(run=lambda: model, best=valid, clock=clock, stepper=stepper, step=1)

    rows: list[dict[str, object]] = []
    monkeypatch.setattr(benchmark, "Translation", Task)
    monkeypatch.setattr(benchmark, "trainer", trainer)
    monkeypatch.setattr(benchmark, "gate_recipe", lambda *_: None)
    monkeypatch.setattr(benchmark, "append", lambda file, more: rows.extend(more))
    monkeypatch.setattr(benchmark, "QUALITY", {benchmark.RECIPE: benchmark.QUALITY[benchmark.RECIPE]})
    benchmark.quality(Namespace(small=False, save=True), torch.device("cpu"))
    assert judged == [("second", "test2016")]
    assert [(row["bleu"], row["valid_bleu"], row["chosen_on"]) for row in rows] == [(30.0, 25.0, "valid")]


def test_new_columns_leave_old_rows_readable(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timing = load("timing")
    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    timing.append("some.csv", [{"batch": 256, "marian": 1.5}])
    timing.append("some.csv", [{"batch": 512, "how": "eager"}, {"batch": 1024, "share": 0.5}])
    with (tmp_path / "some.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == ["batch", "marian", "how", "share"]
    assert [(row["batch"], row["marian"], row["how"], row["share"]) for row in rows] == [
        ("256", "1.5", "", ""), ("512", "", "eager", ""), ("1024", "", "", "0.5")
    ]  # fmt: skip
    assert all(row["date"] and row["torch"] for row in rows)

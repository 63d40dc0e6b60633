"""Change the code in small ways, one at a time, and see whether a test fails: mutants of alignments, masks and search.

    python tools/mutants.py --count 300 --seed 1 --results mutants.jsonl
    python tools/mutants.py --count 300 --seed 1 --results mutants.jsonl --again     # survivors, after new tests

A mutant is one changed place: a comparison, an operator, a number, a condition, a returned value, a keyword argument, a
bound of a slice, a statement. Messages of errors, docstrings, annotations and assertions stay as they are. `--count` of
them are drawn from all, each with the same chance. Each is imported in place of its file by a process of its own, which
runs the tests that go through the changed lines, those of the mirror file first; the working tree is never changed.

A mutant is killed when a test fails, or when its process takes far more CPU time than the tests need. Mutants that no
input can tell from the code are listed in tools/equivalent_mutants.toml, each with its reason, and do not count. The
exit status is 1 if more than 10 % of the others survive. What is known stands in the file of results, so a run that was
stopped goes on from there.
"""

import argparse
import contextlib
import functools
import hashlib
import importlib.machinery
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork

import beartype  # noqa: F401  what tests import is imported once, before the processes are made
import coverage
import hypothesis.configuration
import jaxtyping  # noqa: F401
import pytest
import torch
import torch._dynamo
from find_mutants import MUTATED, ROOT, Mutant, equivalent_mutants, find_mutants
from tqdm import tqdm

TESTS = ("tests/align/*.py", "tests/decode/*.py", "tests/attention/test_mask.py", "tests/attention/test_attention.py",
         "tests/attention/test_edges.py", "tests/attention/test_dispatch.py", "tests/attention/test_fused.py",
         "tests/test_properties.py", "tests/test_bad_input.py")  # fmt: skip
MAY_SURVIVE = 0.10  # of those that count
MODES = {  # most mutants die in the first one, which takes a third of the time
    "plain": ("-m", "not gpu and not slow"),
    "hook": ("-m", "not bare and not gpu and not slow", "--jaxtyping-packages=regard,beartype.beartype"),
}
OPTIONS = (
    "-q",
    "-x",
    "--tb=no",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
)  # pytest must not read files itself
BUDGET = 10.0  # CPU seconds of tests in a stage
SPARE = 20.0  # CPU seconds that a process has beside four times those of its tests


class Stage(NamedTuple):
    """Tests that are run by one process."""

    mode: str
    tests: list[str]
    seconds: float


class Verdict(NamedTuple):
    """What became of a mutant: whether it was killed, by which test, and in how many CPU seconds."""

    killed: bool
    by: str
    seconds: float


# ── which tests go through a line ───────────────────────────────────────────────────────────────────────────────────


class Chosen:
    """A plug-in of pytest: the wanted tests alone, in their order; how long each takes, and which failed first."""

    def __init__(self, wanted: Sequence[str] | None = None, tracer: coverage.Coverage | None = None) -> None:
        self.order = None if wanted is None else {name: place for place, name in enumerate(wanted)}
        self.tracer, self.failed = tracer, ""
        self.seconds: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = self.order
        if order is not None:
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.tracer is not None:
            self.tracer.switch_context(item.nodeid)
        start = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - start

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid or "the collection of tests"

    pytest_collectreport = pytest_runtest_logreport


def run_pytest(mode: str, files: Sequence[str], plugin: Chosen) -> bool:
    """Whether all tests pass, or there is none."""
    return pytest.main([*OPTIONS, *MODES[mode], *files], plugins=[plugin]) in (0, 5)


def trace(file: str) -> dict[str, Any]:
    """The seconds of each test of a file, and for each line of mutated code the tests that go through it."""
    tracer = coverage.Coverage(data_file=None, include=[str(ROOT / pattern) for pattern in MUTATED])
    plugin = Chosen(tracer=tracer)
    tracer.start()
    passed = run_pytest("plain", [file], plugin)
    tracer.stop()
    if not passed:
        raise SystemExit(f"{plugin.failed} fails without any mutant")
    data = tracer.get_data()
    lines = {
        str(Path(path).relative_to(ROOT)): {
            str(line): [name for name in names if name] for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
        if data.lines(path)
    }
    return {"seconds": plugin.seconds, "lines": lines}


def choose_tests(mutant: Mutant, traces: dict[str, dict[str, Any]]) -> list[Stage]:
    """The tests that go through a mutant: of the mirror file and its docstrings; of others; the first with the hook.

    Where they take too long, every test function has its turn before one has a second.
    """
    _, area, name = mutant.file.removeprefix("src/").split("/")
    mirror = (f"tests/{area}/test_{name}", mutant.file)
    stages = []
    for of_mirror in (True, False):
        seconds: dict[str, float] = {}
        for file, known in traces.items():
            lines = known["lines"].get(mutant.file, {})
            if (file in mirror) != of_mirror:
                continue
            if mutant.in_function:
                near = [tests for line, tests in lines.items() if mutant.lines[0] <= int(line) <= mutant.lines[1]]
                seconds |= {test: known["seconds"][test] for tests in near for test in tests}
            elif of_mirror or any(lines.values()):  # what an import runs shows in any test
                seconds |= known["seconds"]
        turns, queue = Counter[str](), []
        for test in seconds:
            function = test.partition("[")[0]
            turns[function] += 1
            queue.append((turns[function], test))
        queue.sort(key=lambda entry: entry[0])
        spent = itertools.accumulate(seconds[test] for _, test in queue)
        kept = {test for (_, test), total in zip(queue, spent, strict=True) if total < BUDGET}
        if kept:
            tests = [test for test in seconds if test in kept]
            stages.append(Stage("plain", tests, sum(seconds[test] for test in tests)))
    return [*stages, *(stage._replace(mode="hook", seconds=4 * stage.seconds) for stage in stages[:1])]


# ── processes, each with one mutant ─────────────────────────────────────────────────────────────────────────────────


def put_in_place(mutant: Mutant) -> list[str]:
    """From now on this process imports the mutant in place of its file; the list is empty until it does.

    What Python has compiled before is neither read nor written.
    """
    place, source, imported = str(ROOT / mutant.file), mutant.source(), list[str]()
    loader: Any = importlib.machinery.SourceFileLoader
    read, stats = loader.get_data, loader.path_stats

    def get_data(self: Any, path: str) -> bytes:
        if path != place:
            return bytes(read(self, path))
        imported.append(path)
        return source

    def path_stats(self: Any, path: str) -> Any:
        if path == place:
            raise OSError("there is no file of compiled code for a mutant")
        return stats(self, path)

    loader.get_data, loader.path_stats = get_data, path_stats
    return imported


def fork(work: Callable[[], Any], place: Path, seconds: float) -> int:
    """The id of a process that leaves in `place` what `work` gives; it has so many seconds of CPU time."""
    number = os.fork()
    if number == 0:
        report, code = place / f"{os.getpid()}.json", 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            report.write_text(json.dumps(work()))
            code = 0
        except BaseException:
            report.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return number


def wait(place: Path) -> tuple[int, Any, float]:
    """The process that ends next: its id, what it gave (the signal, where one ended it), and its CPU seconds."""
    number, status, usage = os.wait4(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    report = place / f"{number}.json"
    if code > 0:
        raise SystemExit(f"a process of this tool failed:\n{report.read_text()}")
    seconds = usage.ru_utime + usage.ru_stime
    if code < 0:
        return number, "too much CPU time" if code == -signal.SIGXCPU else f"signal {-code}", seconds
    return number, json.loads(report.read_text()), seconds


def try_mutant(mutant: Mutant, stage: Stage) -> str:
    """Which of the tests fails, or nothing."""
    imported = put_in_place(mutant)
    plugin = Chosen(stage.tests)
    passed = run_pytest(stage.mode, list(dict.fromkeys(test.partition("::")[0] for test in stage.tests)), plugin)
    if passed and not imported:
        raise RuntimeError(f"{mutant.file} was imported from elsewhere")
    return "" if passed else plugin.failed or "an error of pytest"


def judge(mutants: Sequence[tuple[Mutant, list[Stage]]], jobs: int, place: Path) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdict on each mutant, as soon as it is known; `jobs` processes at a time."""
    waiting = [(mutant, stages, 0.0) for mutant, stages in reversed(mutants)]
    running: dict[int, tuple[Mutant, list[Stage], float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant, stages, spent = waiting.pop()
            if stages:
                work = functools.partial(try_mutant, mutant, stages[0])
                running[fork(work, place, SPARE + 4 * stages[0].seconds)] = mutant, stages[1:], spent
            else:
                yield mutant, Verdict(False, "", round(spent, 1))
        if running:
            number, by, seconds = wait(place)
            mutant, stages, spent = running.pop(number)
            if by:
                yield mutant, Verdict(True, by, round(spent + seconds, 1))
            else:
                waiting.append((mutant, stages, spent + seconds))


# ── the file of results, and the table ──────────────────────────────────────────────────────────────────────────────


class Results:
    """What is known of tests and mutants, a line of JSON each; later lines replace earlier ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.verdicts: dict[str, Verdict] = {}
        self.traces: dict[str, Any] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            self.keep(json.loads(line))

    def keep(self, entry: dict[str, Any]) -> None:
        if "mutant" in entry:
            self.verdicts[entry["mutant"]] = Verdict(*entry["verdict"])
        else:
            self.traces[entry["tests"]] = entry["trace"]

    def add(self, **entry: Any) -> None:
        self.keep(entry)
        with self.path.open("a") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def trace_all(results: Results, place: Path) -> dict[str, dict[str, Any]]:
    """The traces of all files of tests; those that neither they nor the code have changed for are known."""
    mutated = sorted(path for pattern in MUTATED for path in ROOT.glob(pattern))
    code = b"".join(path.read_bytes() for path in mutated)
    files = [path for pattern in TESTS for path in sorted(ROOT.glob(pattern))]
    traces = {}
    for path in tqdm(
        [*files, *(path for path in mutated if ">>>" in path.read_text())], unit="file of tests", disable=None
    ):
        file = str(path.relative_to(ROOT))
        key = f"{file} {hashlib.sha256(code + path.read_bytes()).hexdigest()}"
        if key not in results.traces:
            fork(functools.partial(trace, file), place, 3600)
            results.add(tests=key, trace=wait(place)[1])
        traces[file] = results.traces[key]
    return traces


def table(mutants: Sequence[Mutant], verdicts: dict[str, Verdict], equivalent: dict[str, str]) -> str:
    """Module by module, then the survivors."""
    groups = {mutant.key: "killed" if verdicts[mutant.key].killed else "equivalent" if mutant.key in equivalent else
              "survived" for mutant in mutants}  # fmt: skip
    lines = [f"{'module':34} mutants  killed  equivalent  survived"]
    for file in sorted({mutant.file for mutant in mutants}):
        counts = Counter(groups[mutant.key] for mutant in mutants if mutant.file == file)
        numbers = (counts.total(), counts["killed"], counts["equivalent"], counts["survived"])
        lines.append("{:34} {:7} {:7} {:11} {:9}".format(file, *numbers))
    for mutant in mutants:
        if groups[mutant.key] == "survived":
            lines.append(f"survived: {mutant.file}:{mutant.line}\n  {mutant.before}\n  → {mutant.after}")
        elif groups[mutant.key] == "killed" and mutant.key in equivalent:
            by = verdicts[mutant.key].by
            lines.append(f"killed by {by}, but listed as equivalent: {mutant.file}:{mutant.line}\n  → {mutant.after}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many mutants are drawn (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--results", type=Path, help="a file of results to go on with (default: none is kept)")
    parser.add_argument("--again", action="store_true", help="try survivors of the file of results once more")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="mutants_"))
    results = Results((asked.results or place / "results.jsonl").resolve())
    prepare(place)
    pool = find_mutants()
    equivalent = equivalent_mutants(pool)
    mutants = random.Random(asked.seed).sample(pool, min(asked.count, len(pool)))
    again = {key for key, known in results.verdicts.items() if asked.again and not known.killed} - set(equivalent)
    new = [mutant for mutant in mutants if mutant.key not in results.verdicts or mutant.key in again]
    if new:
        traces = trace_all(results, place)
        todo = [(mutant, choose_tests(mutant, traces)) for mutant in new]
        for mutant, verdict in tqdm(judge(todo, asked.jobs, place), total=len(todo), unit="mutant", disable=None):
            results.add(mutant=mutant.key, verdict=verdict)
    shutil.rmtree(place)
    print(table(mutants, results.verdicts, equivalent))
    survived = sum(not results.verdicts[one.key].killed and one.key not in equivalent for one in mutants)
    counted = survived + sum(results.verdicts[one.key].killed for one in mutants)
    print(f"{len(mutants)} of {len(pool)} mutants, seed {asked.seed}: {len(mutants) - counted} equivalent, "
          f"{survived} of the other {counted} survived ({survived / max(counted, 1):.1%})")  # fmt: skip
    return int(survived > MAY_SURVIVE * counted)


def prepare(place: Path) -> None:
    """Tests run in the root of the repository, write nothing into it, and do not shrink what fails."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    torch.set_num_threads(1)
    hypothesis.configuration.set_hypothesis_home_dir(place)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True)
    hypothesis.settings.load_profile("mutants")
    trivial = place / "test_trivial.py"
    trivial.write_text("def test() -> None: ...")
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*OPTIONS, str(trivial)])  # what pytest imports is imported once


if __name__ == "__main__":
    sys.exit(main())

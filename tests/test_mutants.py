"""tools/mutants.py: which mutants it makes, that it tells killed ones from survivors, and that its list is of today."""

import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
SOURCE = '''
"""A docstring with 1 < 2."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 3


def clip(x: int, low: "int | None" = 0, *, size: int = 5) -> int | None:
    """Another one, 1 + 1."""
    assert isinstance(x, int) and x > 7
    got = f"{x + 1}"
    if x < (low or 1):
        raise ValueError(f"{x - 1}", got)
    y = x
    y = pad(~x[1:size], -2, value=not low)
    return y if x is None else min(y, 2.5)
'''
TRIAL = """
import json, sys
from pathlib import Path
import mutants

def show(place):
    mutants.prepare(place)
    pool = {mutant.after: mutant for mutant in mutants.find_mutants()}
    wrong = pool["filled = (filled - over.largest(filled)) * temperature # a large score stays finite"]
    tests = "tests/align/test_softmax.py::"
    notices = mutants.Stage("hook", [tests + "test_temperature_divides_the_scores[0.5]"], 1.0)
    sleeps = mutants.Stage("plain", [tests + "test_golden_values"], 1.0)
    same = mutants.Mutant(wrong.file, "", True, (1, 1), 1, "", "", 0, 0, "")
    cases = [(wrong, [sleeps, notices]), (wrong, [sleeps]), (wrong, []), (same, [notices])]
    verdicts = [[verdict.killed, verdict.by] for _, verdict in mutants.judge(cases, 1, place)]
    mutants.fork(lambda: [0 for _ in iter(int, 1)], place, 1.0)
    traced = mutants.trace("tests/align/test_gate.py")["lines"]["src/regard/align/gate.py"]
    return verdicts, mutants.wait(place)[1], traced

print(json.dumps(show(Path(sys.argv[1]))))
"""


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import find_mutants

    return find_mutants


def test_every_change_of_a_small_file(finder: ModuleType) -> None:
    mutants = finder.Finder("clip.py", SOURCE).mutants.values()
    changes = {SOURCE.encode()[mutant.start : mutant.end].decode().strip() + " → " + mutant.replacement.strip()
               for mutant in mutants}  # fmt: skip
    assert changes == {
        "0 → 1", "5 → 6",  # defaults
        "< ( → <= (", "< ( → >= (", "low or 1 → low and 1", "1 → 0",
        'raise ValueError(f"{x - 1}", got) → pass',
        "y = pad(~x[1:size], -2, value=not low) → pass",  # the second value of y; the first one is needed
        ", value=not low → ", "not → ", "~ → ", "size → (size) + 1", "- → ", "-2 → -1",
        "is → is not", "y if x is None else min(y, 2.5) → None", "min → max", "2.5 → 3.5",
    }  # fmt: skip
    assert {mutant.function for mutant in mutants} == {"clip"}
    assert len({mutant.key for mutant in mutants}) == len(mutants)


def test_every_mutant_is_other_code_that_compiles(finder: ModuleType) -> None:
    pool = finder.find_mutants()
    assert len(pool) > 1_000
    assert len({mutant.key for mutant in pool}) == len(pool)
    for mutant in random.Random(0).sample(pool, 100):
        code = ast.dump(ast.parse(mutant.source()))
        assert code != ast.dump(ast.parse((finder.ROOT / mutant.file).read_text())), mutant.key


@pytest.mark.slow
def test_tests_tell_mutants_from_the_code(tmp_path: Path) -> None:
    """A real mutant, with a test that notices it, with one that does not, with none; and the code itself."""
    env = {**os.environ, "PYTHONPATH": str(TOOLS)}
    before = {path: path.read_bytes() for path in (TOOLS.parent / "src" / "regard" / "align").glob("*.py")}
    command = [sys.executable, "-c", TRIAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=TOOLS.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts, endless, traced = json.loads(done.stdout.splitlines()[-1])
    notices = "tests/align/test_softmax.py::test_temperature_divides_the_scores[0.5]"
    assert verdicts == [[True, notices], [False, ""], [False, ""], [False, ""]]
    assert endless == "too much CPU time"
    [line] = [str(n) for n, text in enumerate(before[TOOLS.parent / "src" / "regard" / "align" / "gate.py"].decode()
              .splitlines(), 1) if "return torch.sigmoid(scores)" in text]  # fmt: skip
    assert "tests/align/test_gate.py::test_infinite_scores" in traced[line]
    assert "tests/align/test_gate.py::test_offset_is_added_to_the_scores" not in traced[line]
    assert before == {path: path.read_bytes() for path in before}


def test_the_list_of_equivalent_mutants_is_of_today(finder: ModuleType) -> None:
    pool = finder.find_mutants()
    reasons = finder.equivalent_mutants(pool)
    assert all(reason.endswith(".") for reason in reasons.values())
    with pytest.raises(SystemExit, match="lists what is not a mutant any more:"):
        finder.equivalent_mutants([mutant for mutant in pool if mutant.key not in reasons])

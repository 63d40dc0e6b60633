"""The score of CONTRIBUTING, put into a copy of the project by the files that it names, can do what others can."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from examples_of import score_examples, without_row
from page_blocks import add, as_module, copy_of_the_project, files_of, files_to_touch, run_tests

from regard import Attention, Mask, MultiHead, attend
from regard.attention import EdgeAttention, attend_edges
from regard.base import ShapeError
from regard.nn import build_attention
from regard.score import SCORES, Edges, Score

pytestmark = pytest.mark.bare  # the tests of the copy run in processes of their own

TITLE, PAGE = "Adding a score", "docs/scores.md"
FILES = files_of(TITLE)
ALL_SCORES = [
    "tests/score/test_score.py",
    "tests/score/test_edge.py",
    "tests/attention/test_edges.py",
    "tests/nn/test_attentions.py",
    "tests/test_bad_input.py",
    "tests/test_combinations.py",
    "tests/test_compile.py",
    "tests/test_translators.py",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_of_the_project(tmp_path_factory.mktemp("project"))
    for path, (language, text) in FILES.items():
        add(root, path, language, text)
    return root


def test_the_page_names_every_file_that_is_touched() -> None:
    named = {path.replace("<name>", "manhattan") for path in files_to_touch("a score")}
    assert named == set(FILES)
    assert len(FILES) <= 5


@pytest.mark.slow
def test_the_tests_of_all_scores_take_it_in(project: Path) -> None:
    """A choice of its tests from every file: the whole product of scores and alignments would take minutes."""
    chosen = "(manhattan or Manhattan) and not (monotonic or hard or entmax or sigmoid or share or normalize)"
    outcome = run_tests(project, *ALL_SCORES, "-k", chosen)
    assert outcome.returncode == 0, outcome.stdout[-3000:]
    missing = [file for file in ALL_SCORES if f"{file}::" not in outcome.stdout]
    assert not missing, f"no test of Manhattan in {missing}"


@pytest.mark.slow
def test_its_own_tests_and_the_rules_of_the_project_hold(project: Path) -> None:
    rules = ["tests/test_architecture.py", "tests/score/test_manhattan.py", "tests/cli/test_info.py"]
    rules += [
        "src/regard/score/manhattan.py",
        "tests/score/test_score.py::test_every_score_of_the_menu_has_a_row_on_its_page",
    ]
    outcome = run_tests(project, *rules)
    assert outcome.returncode == 0, outcome.stdout[-3000:]


@pytest.mark.slow
def test_a_score_without_its_row_is_noticed_by_name(project: Path) -> None:
    path = project / PAGE
    whole = path.read_text()
    path.write_text("\n".join(line for line in whole.splitlines() if "`Manhattan()`" not in line))
    try:
        outcome = run_tests(project, "tests/score/test_score.py", "-k", "has_a_row_on_its_page")
    finally:
        path.write_text(whole)
    assert outcome.returncode == 1
    assert "docs/scores.md has no row for Manhattan" in outcome.stdout


# ── the class itself, in this process ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Score]:
    """The class, on the menu by one entry."""
    module: ModuleType = as_module("toy_score", FILES["src/regard/score/manhattan.py"][1], tmp_path / "manhattan.py")
    monkeypatch.setitem(SCORES, "manhattan", module.Manhattan)
    yield module.Manhattan()
    del sys.modules["toy_score"]


def inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 4)


def test_it_works_in_every_attention_under_a_mask(score: Score) -> None:
    query, keys, values = inputs()
    mask = Mask.padding([3, 5])
    scores = -(query.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1)
    weights = scores.masked_fill(torch.arange(5) >= torch.tensor([3, 5]).view(2, 1, 1), -torch.inf).softmax(-1)
    out = attend(query, keys, values, score=score, mask=mask)
    torch.testing.assert_close(out.weights, weights)
    torch.testing.assert_close(Attention(score)(query, keys, values, mask=mask).context, weights @ values)
    heads = MultiHead(8, num_heads=2, attention=Attention(score))
    several = heads(query, keys, mask=mask, need_weights=True)
    assert several.weights.shape == (2, 2, 3, 5)
    assert (several.weights[0, ..., 3:] == 0).all()
    empty = attend(query, keys, values, score=score, mask=Mask.padding([0, 5]))
    assert (empty.context[0] == 0).all()


def test_it_works_over_edges(score: Score) -> None:
    query, keys, values = inputs()
    mask = torch.rand(3, 5) < 0.6
    edges = Edges.from_mask(mask)
    dense = attend(query, keys, values, score=score, mask=mask)
    for sparse in (
        attend_edges(query, keys, values, edges, score=score),
        EdgeAttention(score)(query, keys, values, edges),
    ):
        torch.testing.assert_close(sparse.context, dense.context)


def test_it_is_built_by_its_name_and_refuses_wrong_widths(score: Score) -> None:
    query, keys, values = inputs()
    layer = build_attention("manhattan", "sparsemax", query_dim=8, key_dim=8, hidden_dim=4)
    assert layer(query, keys, values).context.shape == (2, 3, 4)
    with pytest.raises(ShapeError, match="Manhattan compares query and keys of one width: got query 8 and keys 6"):
        attend(query, keys[..., :6], values, score=score)


def test_the_list_of_examples_knows_whether_it_has_a_row(score: Score, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / PAGE
    page.write_text((Path(__file__).parents[1] / PAGE).read_text())
    assert without_row(SCORES, score_examples(page.read_text()).values()) == ["Manhattan"]
    add(tmp_path, PAGE, *FILES[PAGE])
    examples = score_examples(page.read_text())
    assert without_row(SCORES, examples.values()) == []
    assert isinstance(examples["manhattan"](8), type(score))
    assert (examples["manhattan"].any_widths, examples["manhattan"].over_edges) == (False, True)

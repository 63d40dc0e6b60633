"""The playground of the studio in a real browser: its numbers are those of regard, and it moves as it is told."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from browser import needs_browser, open_browser, open_page
from page_state import until
from static_page import STATIC, shell
from torch import Tensor

from regard import Mask
from regard.align import (
    Alignment,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    TopK,
    entmax,
    identity,
    normalize,
    share,
    sigmoid,
    softmax,
    sparsemax,
)  # fmt: skip
from regard.score import (
    Concatenation,
    additive,
    cosine,
    dot,
    gaussian_kernel,
    general,
    graph_additive,
    inverse_distance,
    leaky_additive,
    location,
    scaled_dot,
)  # fmt: skip

pytestmark = needs_browser
NEAR = 1e-6


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with shell() as base:
        yield base


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


def opened(page: Any, address: str, state: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"{address}#playground?{state}")
    page.wait_for_selector("body[data-ready]")
    until(page, "[...document.styleSheets].some((sheet) => sheet.href?.endsWith('lecture.css'))")


def close(ours: Any, theirs: Tensor) -> bool:
    """Equal to 1e-6, relative to numbers above one; infinite ones must be the same."""
    ours, theirs = torch.as_tensor(ours, dtype=torch.float64), theirs.detach().double()
    same = ours == theirs
    return ours.shape == theirs.shape and bool(
        (same | ((ours - theirs).abs() <= NEAR * theirs.abs().clamp(min=1))).all()
    )


def results(page: Any) -> dict[str, Any]:
    """Scores, weights and context as the bench has them, with all digits."""
    found: dict[str, Any] = json.loads(page.get_attribute(".bench", "data-result"))
    return found


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Problem(NamedTuple):
    """One random case: three queries of width two, five keys, and everything that is learnt."""

    query: Tensor
    keys: Tensor
    values: Tensor
    W: Tensor
    U: Tensor
    v: Tensor
    a: Tensor
    places: Tensor
    centre: Tensor
    numbers: Tensor  # a few numbers between 0 and 1


def drawn(seed: int) -> Problem:
    source = torch.Generator().manual_seed(seed)
    shapes = [(3, 2), (5, 2), (5, 3), (4, 2), (4, 2), (4,), (4,), (4, 2), (3, 2)]
    tensors = [torch.randn(*shape, generator=source, dtype=torch.float64) for shape in shapes]
    return Problem(*tensors, torch.rand(6, generator=source, dtype=torch.float64))


def _concatenation(query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    score = Concatenation(query.shape[-1]).double()
    score.weight.data = weight.reshape(score.weight.shape)
    return score(query, keys).detach()


Made = Callable[[Problem], tuple[dict[str, Any], Tensor]]
SCORE_CASES: dict[str, Made] = {
    "dot": lambda p: ({}, dot(p.query, p.keys)),
    "scaled_dot": lambda p: ({}, scaled_dot(p.query, p.keys)),
    "general": lambda p: ({"W": p.W[:2].tolist()}, general(p.query, p.keys, p.W[:2])),
    "additive": lambda p: (
        {"W": p.W.tolist(), "U": p.U.tolist(), "v": p.v.tolist()},
        additive(p.query @ p.W.mT, p.keys @ p.U.mT, p.v),
    ),
    "concat": lambda p: (
        {"W": torch.cat([p.W, p.U], 1).tolist(), "v": p.v.tolist()},
        additive(p.query @ p.W.mT, p.keys @ p.U.mT, p.v),
    ),
    "projected_additive": lambda p: ({"v": p.v[:2].tolist()}, additive(p.query, p.keys, p.v[:2])),
    "cosine": lambda p: ({"strength": float(8 * p.numbers[0])}, cosine(p.query, p.keys, float(8 * p.numbers[0]))),
    "location": lambda p: ({"W": p.places.tolist()}, location(p.query, p.places, p.keys.shape[0])),
    "inverse_distance": lambda p: ({}, inverse_distance(p.query, p.keys)),
    "log_inverse_distance": lambda p: ({}, inverse_distance(p.query, p.keys, log=True)),
    "gaussian": lambda p: (
        {"bandwidth": 0.5 + float(p.numbers[1])},
        gaussian_kernel(p.query, p.keys, bandwidth=0.5 + float(p.numbers[1])),
    ),
    "log_gaussian": lambda p: (
        {"bandwidth": 0.5 + float(p.numbers[1])},
        gaussian_kernel(p.query, p.keys, bandwidth=0.5 + float(p.numbers[1]), log=True),
    ),
    "negative_distance": lambda p: ({}, -torch.cdist(p.query, p.keys)),
    "graph_additive": lambda p: ({"a": p.a.tolist()}, graph_additive(p.query, p.keys, p.a.reshape(2, 2))),
    "leaky_additive": lambda p: ({"a": p.a[:2].tolist()}, leaky_additive(p.query, p.keys, p.a[:2])),
    "concatenation": lambda p: ({"a": p.a.tolist()}, _concatenation(p.query, p.keys, p.a)),
}


def _local_p(p: Problem, scores: Tensor, mask: Tensor) -> Alignment:
    align = LocalPredictive(2, window=2, hidden_dim=3).double()
    align.to_hidden.weight.data, align.to_centre.weight.data = p.centre, p.v[None, :3]
    return align(scores, mask, query=p.query.expand(*scores.shape[:-2], 3, 2))


Aligned = tuple[dict[str, Any], Callable[[Problem, Tensor, Tensor], Tensor]]
ALIGN_CASES: dict[str, Callable[[Problem], Aligned]] = {
    "softmax": lambda p: ({}, lambda p, e, m: softmax(e, m)),
    "sparsemax": lambda p: ({}, lambda p, e, m: sparsemax(e, m)),
    "entmax": lambda p: (
        {"alpha": 1.05 + 0.9 * float(p.numbers[2])},
        lambda p, e, m: entmax(e, m, alpha=1.05 + 0.9 * float(p.numbers[2])),
    ),
    "normalize": lambda p: ({}, lambda p, e, m: normalize(e, m)),
    "share": lambda p: ({}, lambda p, e, m: share(e, m)),
    "identity": lambda p: ({}, lambda p, e, m: identity(e, m)),
    "sigmoid": lambda p: (
        {"offset": float(p.numbers[3]) - 1},
        lambda p, e, m: sigmoid(e, m, offset=float(p.numbers[3]) - 1),
    ),
    "top_k": lambda p: ({"k": 2}, lambda p, e, m: TopK(2)(e, m).weights),
    "hard": lambda p: ({}, lambda p, e, m: Hard("argmax")(e, m).weights),
    "local_monotonic": lambda p: ({"window": 1}, lambda p, e, m: LocalMonotonic(1)(e, m, step=1).weights),
    "local_predictive": lambda p: (
        {"window": 2, "W": p.centre.tolist(), "v": p.v[:3].tolist()},
        lambda p, e, m: _local_p(p, e, m).weights.detach(),
    ),
    "monotonic": lambda p: (
        {"offset": -0.5},
        lambda p, e, m: Monotonic(offset=-0.5, noise=0.0).double()(e, m).weights.detach(),
    ),
}
MASKS: dict[str, tuple[dict[str, Any], Mask]] = {
    "all": ({"padding": 5}, Mask.padding([5])),
    "padding": ({"padding": 3}, Mask.padding([3])),
    "causal": ({"causal": True}, Mask.causal()),
    "causal window": ({"causal": True, "window": [1, 0]}, Mask.causal() & Mask.window(1, 0)),
    "block": ({"block": 2}, Mask.block(2)),
    "empty": ({"padding": 0}, Mask.padding([0])),
}
PAGE_SOLVES = """async (cases) => {
  const { attend } = await import("/mechanism/index.js");
  return cases.map((each) => {
    const found = attend(each);
    return { ...found, scores: found.scores.map((row) => row.map(String)) };
  });
}"""


def test_every_score_with_every_alignment_and_mask_gives_the_numbers_of_regard(browser: Any, address: str) -> None:
    asked, expected = [], []
    allowed = torch.stack([mask.dense(3, 5).expand(1, 3, 5)[0] for _, mask in MASKS.values()])
    for seed, (score, made) in enumerate(SCORE_CASES.items()):
        for number, (name, align) in enumerate(ALIGN_CASES.items()):
            p = drawn(100 * seed + number)
            temperature = [1.0, 0.25, 3.0][number % 3]
            if name in ("local_predictive", "local_monotonic") and number % 2:
                p = p._replace(query=p.query * 2)
            (settings, scores), (align_settings, compute) = made(p), align(p)
            weights = compute(p, (scores / temperature).expand(len(MASKS), 3, 5), allowed)
            for (rules, _), row in zip(MASKS.values(), weights, strict=True):
                asked.append({
                    "queries": p.query.tolist(), "keys": p.keys.tolist(), "values": p.values.tolist(), "mask": rules,
                    "score": {"name": score, **settings}, "step": 1,
                    "align": {"name": name, "temperature": temperature, **align_settings},
                })  # fmt: skip
                expected.append((scores, row, row @ p.values))
    with open_page(browser) as page:
        opened(page, address)
        answers = page.evaluate(PAGE_SOLVES, asked)
        menus = page.evaluate("import('/mechanism/index.js').then(({SCORES, ALIGNS}) => [Object.keys(SCORES), ALIGNS])")
    assert menus == [list(SCORE_CASES), list(ALIGN_CASES)]
    assert len(answers) == len(SCORE_CASES) * len(ALIGN_CASES) * len(MASKS) == 1152
    for case, answer, (scores, weights, context) in zip(asked, answers, expected, strict=True):
        about = f"{case['score']}, {case['align']}, {case['mask']}"
        assert close([[float(x.replace("Infinity", "inf")) for x in row] for row in answer["scores"]], scores), about
        tied = case["score"]["name"] == "concatenation" and case["align"]["name"] == "top_k"  # many scores are zero
        for name, theirs in (("weights", weights), ("context", context)):
            ours = torch.tensor(answer[name], dtype=torch.float64)
            if tied:  # then any of the equal keys may be kept
                ours, theirs = (ours.sort().values, theirs.sort().values) if name == "weights" else (theirs, theirs)
            assert close(ours, theirs), (about, name, ours, theirs)
        if case["mask"] == {"padding": 0}:
            assert not weights.any()
            assert answer["weights"] == [[0] * 5] * 3


def test_infinite_and_equal_scores_follow_the_rules_of_alignments(browser: Any, address: str) -> None:
    rows = [[math.inf, 1.0, math.inf], [-math.inf, 2.0, 0.0], [-math.inf] * 3, [1e300, -1e300, 0.0], [1.0, 1.0, 1.0]]
    names = ["softmax", "sparsemax", "entmax", "normalize", "share", "sigmoid", "hard"]
    with open_page(browser) as page:
        opened(page, address)
        answers = page.evaluate(
            """async ([rows, names]) => {
              const { align } = await import("/mechanism/index.js");
              const numbers = rows.map((row) => row.map((x) => Number(x)));
              return names.map((name) => align(name, numbers));
            }""",
            [[[str(x).replace("inf", "Infinity") for x in row] for row in rows], names],
        )
    scores = torch.tensor(rows, dtype=torch.float64)
    plain = Problem(*[scores] * 10)
    for name, answer in zip(names, answers, strict=True):
        _, compute = {
            "entmax": ({}, lambda p, e, m: entmax(e, m)),
            "sigmoid": ({}, lambda p, e, m: sigmoid(e)),
        }.get(name) or ALIGN_CASES[name](plain._replace(numbers=torch.zeros(6)))
        weights = compute(plain, scores, torch.ones_like(scores, dtype=torch.bool))
        assert close(answer, weights), name


def test_draws_repeat_with_their_seed_and_come_close_to_the_softmax(browser: Any, address: str) -> None:
    scores, allowed = [0.3, -1.0, 1.4, 0.9], [True, True, True, False]
    with open_page(browser) as page:
        opened(page, address)
        first, again, other, empty = page.evaluate(
            """async ([scores, allowed]) => {
              const { draw } = await import("/mechanism/index.js");
              return [draw(scores, allowed, 20000, 5), draw(scores, allowed, 20000, 5), draw(scores, allowed, 20000, 6),
                      draw(scores, [false, false, false, false], 10, 1)];
            }""",
            [scores, allowed],
        )
    row, mask = torch.tensor([scores], dtype=torch.float64), torch.tensor([allowed])
    weights = softmax(row, mask)[0]
    assert first == again != other
    assert first["counts"][3] == 0
    assert sum(first["counts"]) == 20000
    spread = (weights * (1 - weights) / 20000).sqrt()
    assert bool(((torch.tensor(first["counts"]) / 20000 - weights).abs() <= 4.5 * spread).all())
    _, log_prob, entropy = Hard("sample").eval()(row, mask)
    assert first["entropy"] == pytest.approx(float(entropy), abs=NEAR)
    assert first["logProb"] == pytest.approx(float(weights[first["choice"]].log()), abs=NEAR)
    assert float(log_prob) == pytest.approx(float(weights.max().log()))
    assert empty["counts"] == [0, 0, 0, 0]


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────


def python_lines(page: Any) -> dict[str, Any]:
    """What the Python shown on the page gives when it is run."""
    page.evaluate("document.querySelector('details.python').open = true")
    until(page, "document.querySelector('details.python code').textContent.includes('context =')")
    names: dict[str, Any] = {}
    exec(page.text_content("details.python code"), names)
    return names


PRESETS = [
    "free", "lookup", "interpolation", "temperature", "hard", "local", "sparse", "cosine", "scaled", "masks",
    "monotonic", "location", "scores", "luong",
]  # fmt: skip


def test_each_preset_shows_what_its_own_python_gives(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address)
        assert page.evaluate("[...document.querySelector('.playground select').options].map((o) => o.value)") == PRESETS
        for preset in reversed(PRESETS):
            page.select_option("select >> nth=0", preset)
            assert page.url.endswith(f"#playground?preset={preset}")
            names, shown = python_lines(page), results(page)
            for name in ("weights", "context"):
                assert close([shown[name]], names[name]), (preset, name)


def test_the_python_of_each_score_and_alignment_is_right(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "temperature=2&padding=4&causal=1&place=3&window=2&strength=3")
        choices = {
            number: page.eval_on_selector(f"select >> nth={number}", "menu => [...menu.options].map((o) => o.value)")
            for number in (1, 2)
        }
        assert (len(choices[1]), len(choices[2])) == (15, 11)
        for number, names_of in choices.items():
            for choice in names_of:
                page.select_option(f"select >> nth={number}", choice)
                names, shown = python_lines(page), results(page)
                assert close([shown["weights"]], names["weights"]), choice


def test_the_look_up_of_the_documentation(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "preset=lookup")
        assert results(page)["context"] == [36.0]
        sums = page.eval_on_selector_all("table.bars .sum td", "cells => cells.map((cell) => cell.textContent)")
        assert sums == ["context", "36.000", "40.000", "36.000"]
        page.focus(".point[data-name=q]")
        before = results(page)["context"][0]
        page.keyboard.press("ArrowRight")
        asked = 360 + results(page)["context"][0] - before  # the price grows by a tenth of what the volume grows
        assert before < results(page)["context"][0] < 40
        assert asked > 360


def centre_of(page: Any, name: str, plane: int = 0) -> tuple[float, float]:
    box = page.locator(f".plane >> nth={plane}").locator(f"[data-name={name}] .reach").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_dragging_by_mouse_moves_weights_and_context_and_the_address(browser: Any, address: str) -> None:
    with open_page(browser, viewport={"width": 1200, "height": 1400}) as page:
        opened(page, address)
        before = results(page)
        x, y = centre_of(page, "q")
        to_x, to_y = centre_of(page, "k2")
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move((x + to_x) / 2, (y + to_y) / 2)
        page.mouse.move(to_x, to_y)
        page.mouse.up()
        after = results(page)
        assert before["weights"].index(max(before["weights"])) != 2
        assert after["weights"][2] > 0.9
        until(page, "location.hash.includes('query=')")
        link = page.url
        x, y = centre_of(page, "v2", plane=1)  # and a value takes the context along
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 40)
        page.mouse.up()
        moved = results(page)
        assert moved["weights"] == pytest.approx(after["weights"])
        assert moved["context"][0] > after["context"][0] + 0.5
        page.goto("about:blank")
        page.goto(link)
        page.wait_for_selector("body[data-ready]")
        assert results(page)["weights"] == pytest.approx(after["weights"])


def test_dragging_by_finger(browser: Any, address: str) -> None:
    with open_page(browser, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as page:
        opened(page, address)
        page.locator(".plane >> nth=0").scroll_into_view_if_needed()
        x, y = centre_of(page, "q")
        touch = page.context.new_cdp_session(page)
        for kind, points in (("touchStart", [(x, y)]), ("touchMove", [(x - 40, y + 60)]), ("touchEnd", [])):
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
        until(page, "location.hash.includes('query=')")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_keys_move_points_and_controls_change_the_picture(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address)
        page.focus(".point[data-name=q]")
        before = results(page)["scores"]
        page.keyboard.press("ArrowLeft")
        assert results(page)["scores"] != before
        assert "query at 1.10" in page.get_attribute(".point[data-name=q]", "aria-label")
        page.select_option("select >> nth=1", "cosine")
        page.get_by_label("key strength β", exact=True).fill("12")
        page.select_option("select >> nth=2", "sparsemax")
        until(page, "location.hash.includes('strength=12')")
        names, shown = python_lines(page), results(page)
        assert "cosine(query, keys, 12.0)" in page.text_content("details.python code")
        assert close([shown["weights"]], names["weights"])
        page.get_by_label("padding", exact=True).check()
        assert results(page)["weights"][3:] == [0, 0]
        page.get_by_label("keys that are there", exact=True).fill("0")
        assert results(page)["weights"] == [0] * 5
        assert results(page)["context"] == [0, 0]
        assert "No key may be looked at" in page.text_content(".note")
        page.get_by_role("button", name="Add a key").click()
        assert len(results(page)["weights"]) == 6
        page.get_by_role("button", name="Take the last key away").click()
        page.get_by_label("padding", exact=True).uncheck()
        until(page, "location.hash.includes('padding=off')")
        page.get_by_label("key 2, number 1", exact=True).fill("-4")
        assert page.locator(".point[data-name=k2]").count() == 1
        assert python_lines(page)["keys"][1, 0] == -4


def test_draws_accumulate_towards_the_soft_weights(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address, "preset=hard&samples=0")
        assert page.text_content(".drawnote") == "nothing drawn yet"
        distances = []
        for label in ("draw 10", "draw 1000"):
            page.get_by_role("button", name=label, exact=True).click()
            cells = page.eval_on_selector_all("td.weightbar", "all => all.map((cell) => +cell.dataset.value)")
            weights, shares = cells[::2], cells[1::2]
            assert sum(shares) == pytest.approx(1)
            distances.append(sum(abs(w - s) for w, s in zip(weights, shares, strict=True)))
        assert page.text_content(".drawnote") == "1010 draws so far"
        assert distances[1] < min(distances[0], 0.1)


def test_why_dot_products_are_scaled_and_cosine_needs_a_strength(browser: Any, address: str) -> None:
    def largest() -> list[float]:
        cells = page.eval_on_selector_all(
            "tbody tr", "rows => rows.map((r) => [...r.querySelectorAll('td.weightbar')].map((c) => +c.dataset.value))"
        )
        return [max(column) for column in zip(*[row for row in cells if row], strict=True)]

    with open_page(browser) as page:
        opened(page, address, "preset=scaled")
        plain, scaled = largest()
        assert plain > 0.99 > 0.8 > scaled
        page.get_by_label("width d", exact=True).fill("1")
        assert largest()[0] == pytest.approx(largest()[1])
        opened(page, address, "preset=masks")  # what a preset has is taken back by a word, since empty ones get lost
        assert 0 in results(page)["weights"]
        for label in ("padding", "causal: no later keys", "window"):
            page.get_by_label(label, exact=True).uncheck()
        assert 0 not in results(page)["weights"]
        until(page, "location.hash.includes('causal=off')")
        assert 0 not in results(page)["weights"]
        opened(page, address, "preset=scaled&score=general&align=local_predictive")  # both learnt for two numbers
        chosen = page.eval_on_selector_all("select", "menus => menus.map((menu) => menu.value)")
        assert chosen == ["scaled", "scaled_dot", "softmax"]
        opened(page, address, "preset=temperature")
        usual, cold, hot = largest()
        assert cold > 0.9 > usual > hot > 1 / 5
        opened(page, address, "preset=cosine")
        weak, _, strong = largest()
        assert weak <= math.e / (math.e + 9 / math.e) + 1e-9
        assert strong > 0.99


@pytest.mark.skipif(not (STATIC / "save.js").exists(), reason="the buttons belong to the views of the studio")
def test_what_is_shown_can_be_saved(browser: Any, address: str, tmp_path: Path) -> None:
    with open_page(browser) as page:
        opened(page, address, "preset=lookup")
        for kind in ("JSON", "SVG", "PNG"):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"save as {kind}").click()
            download.value.save_as(tmp_path / kind)
            assert download.value.suggested_filename == f"playground-lookup.{kind.lower()}"
        saved = json.loads((tmp_path / "JSON").read_text())
        assert (saved["context"], saved["state"]["query"]) == ([36], "360")
        assert "context 36.00" in (tmp_path / "SVG").read_text()
        assert (tmp_path / "PNG").read_bytes().startswith(b"\x89PNG")


def test_a_broken_address_opens_with_what_the_bench_starts_with(browser: Any, address: str) -> None:
    with open_page(browser) as page:
        opened(page, address)
        plain = results(page)
        opened(
            page,
            address,
            "keys=x;y&query=1,2,3&values=9&score=nosuch&align=constructor&temperature=0x&W=&preset=__proto__&area=1",
        )
        assert len(results(page)["weights"]) == 5
        assert sum(results(page)["weights"]) == pytest.approx(sum(plain["weights"]))
        opened(
            page,
            address,
            "keys=1,1&values=2,2&padding=99&place=-4&near=1e9&temperature=-1&samples=1e99&compare=a=b|align",
        )
        assert results(page)["weights"] == [1]

"""The views Look and Read of the studio in a browser: what they ask the server, and what they show of its answers."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import needs_browser, open_browser, open_page
from static_page import Site, serve

from regard.explanation import Hops, Matrix, Path, Places
from regard.explanation.png import data_address, from_png, to_png
from regard.tasks.drawn_digit import centred_digit

IMAGE = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
MODELS = [
    {"name": "soft", "title": "soft", "task": "captioning", "verb": "caption"},
    {"name": "hard", "title": "hard", "task": "captioning", "verb": "caption"},
    {"name": "ram", "title": "ram", "task": "classification", "verb": "classify"},
    {"name": "stories", "title": "stories", "task": "question_answering", "verb": "answer"},
    {"name": "clips", "title": "clips", "task": "action_recognition", "verb": "recognise"},
    {"name": "en-fr", "title": "en-fr", "task": "translation", "verb": "translate"},
]
STORY = "Mary went home. Where is Mary?"


def caption(name: str, log_prob: float) -> dict[str, Any]:
    weights = np.full((2, 3, 4), 0.05)
    weights[1, 2, 1] = 0.45 if name == "soft" else 0.9
    places = Places(IMAGE, weights, ["red", "dog"])
    return {"text": f"red dog, says {name}", "tokens": ["red", "dog"], "log_prob": log_prob, "finished": True,
            "explanations": [places.to_json()]}  # fmt: skip


def predicted(content: bytes) -> Any:
    """A multipart request: which model it names decides."""
    name = next(each["name"] for each in MODELS if f'name="model"\r\n\r\n{each["name"]}\r\n'.encode() in content)
    if name == "ram":
        path = Path(IMAGE, [[0.0, 0.0], [0.5, 0.5]], 4, 1, "7")
        return {"predictions": [{"text": "7", "probability": 0.31, "explanations": [path.to_json()]}], "seconds": 0.1}
    return {"predictions": [caption(name, -0.3 if name == "soft" else -6.0)], "seconds": 0.1}


def answered(content: bytes) -> Any:
    asked = json.loads(content)
    if asked["model"] == "stories" and "zebra" in asked["text"]:
        fields = {
            "what": "the model does not know a word",
            "got": "'zebra'",
            "expected": "mary, home",
            "cure": "say it in other words",
        }
        return {"error": fields}
    hops = Hops([[1.0]], ["Mary went home."], question="Where is Mary?", answer="home")
    return {
        "predictions": [{"text": "home", "probability": 0.97, "explanations": [hops.to_json()]}],
        "seconds": 0.02,
        "queue": 2,
    }


def layered(content: bytes) -> Any:
    matrices = [Matrix([[0.25, 0.75]], ["a"], ["b", "c"], layer=f"layer.{n}").to_json() for n in range(2)]
    return {"explanations": matrices}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    picture = {"picture": data_address(to_png(IMAGE)), "target": "a red dog"}
    with serve(tmp_path_factory.mktemp("page")) as served:
        served.answers |= {
            "api/models": lambda _: {"models": MODELS},
            "api/predict-picture": predicted,
            "api/predict": answered,
            "api/layers": layered,
            "api/examples?model=stories": lambda _: {"examples": [{"text": STORY, "target": "home"}]},
            "api/examples?model=clips": lambda _: {"examples": [{"example": 4, "text": "scene 4"}]},
        } | {f"api/examples?model={name}": lambda _: {"examples": [picture]} for name in ("soft", "hard", "ram")}
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Any, site: Site) -> Iterator[Any]:
    site.asked.clear()
    with open_page(browser, viewport={"width": 1000, "height": 900}) as opened:
        opened.set_default_timeout(60_000)
        yield opened


def address(page: Any) -> dict[str, str]:
    page.wait_for_timeout(400)
    return dict(page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"))


def sent(site: Site) -> bytes:
    """The picture of the last request."""
    content = site.asked[-1][1]
    body: bytes = content[content.index(b"\x89PNG") : content.rindex(b"\r\n--")]
    return body


@needs_browser
def test_two_captioners_look_at_an_example_side_by_side(page: Any, site: Site) -> None:
    site.open(page, view="look", state="model=soft&second=hard")
    page.get_by_role("button", name="example 1 (right: a red dog)").click()
    page.locator(".regard-places").nth(1).wait_for()
    assert page.locator(".regard-answer").all_inner_texts() == ["red dog, says soft", "red dog, says hard"]
    np.testing.assert_array_equal(from_png(sent(site)), IMAGE)
    page.get_by_role("radio", name="dog").nth(1).click()
    assert address(page) == {"model": "soft", "second": "hard", "example": "0", "b.e0.word": "1"}
    sure = [
        float(each)
        for each in page.locator(".regard-sure[data-share]").evaluate_all(
            "all => all.map((each) => each.dataset.share)"
        )
    ]
    assert sure == pytest.approx([np.exp(-0.3 / 3), np.exp(-6.0 / 3)])
    assert page.locator(".regard-unsure").count() == 1, "only the second is unsure"
    site.open(page, view="look", state="model=soft&second=hard&example=0&b.e0.word=1")
    page.locator(".regard-places").nth(1).wait_for()
    assert page.locator(".regard-readout").nth(1).get_attribute("data-weight") == "0.9"
    page.locator("select").nth(1).select_option("")
    page.locator(".regard-places").nth(1).wait_for(state="detached")
    assert address(page) == {"model": "soft", "example": "0"}


@needs_browser
def test_a_picture_is_dropped_pasted_or_chosen(page: Any, site: Site) -> None:
    site.open(page, view="look", state="model=soft")
    page.locator(".regard-samples").wait_for()
    content = io.BytesIO(to_png(IMAGE[::-1].copy())).getvalue()
    file = {"name": "dog.png", "mimeType": "image/png", "buffer": content}
    page.locator("input[type=file]").set_input_files(file)
    page.locator(".regard-places").wait_for()
    assert sent(site) == content
    for event, field, target in (("drop", "dataTransfer", ".regard-drop"), ("paste", "clipboardData", "body")):
        site.asked.clear()
        page.evaluate(
            """([event, field, target, data]) => {
              const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)), given = new DataTransfer();
              given.items.add(new File([bytes], "dog.png", { type: "image/png" }));
              const kind = event === "drop" ? DragEvent : ClipboardEvent;
              const how = { [field]: given, bubbles: true, cancelable: true };
              document.querySelector(target).dispatchEvent(new kind(event, how));
            }""",
            [event, field, target, base64.b64encode(content).decode()],
        )
        page.locator(".regard-row > button.primary:enabled").wait_for()
        assert sent(site) == content, event
    page.locator("input[type=file]").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"x"})
    assert "this file is not a picture: got text/plain." in page.get_by_role("alert").inner_text()


@needs_browser
def test_a_digit_drawn_by_hand_is_centred_as_python_does(page: Any, site: Site) -> None:
    site.open(page, view="look", state="model=ram")
    page.locator(".regard-samples").wait_for()
    page.locator("summary", has_text="draw a digit").click()
    pad = page.get_by_label("draw a digit; arrow keys move the pen, space puts it down or lifts it")
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 55, steps=4)
    page.mouse.move(box["x"] + 90, box["y"] + 210, steps=6)
    page.mouse.up()
    page.locator(".regard-path").wait_for()
    assert "the model is not sure" in page.locator(".regard-sides .regard-sure").first.inner_text()
    levels = pad.evaluate(
        "pad => [...pad.getContext('2d').getImageData(0, 0, 280, 280).data].filter((_, n) => n % 4 === 0)"
    )
    expected = centred_digit(np.array(levels, dtype=np.uint8).reshape(280, 280))
    small = page.get_by_label("the digit as the model gets it")
    digit = small.evaluate(
        "small => [...small.getContext('2d').getImageData(0, 0, 28, 28).data].filter((_, n) => n % 4 === 0)"
    )
    np.testing.assert_array_equal(np.array(digit).reshape(28, 28), expected)
    page.get_by_role("button", name="Clear").click()
    pad.focus()
    for key in (" ", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    digit = small.evaluate("small => [...small.getContext('2d').getImageData(0, 0, 28, 28).data]")
    assert max(digit[0::4]) == 255, "the keys draw too"


@needs_browser
def test_a_story_is_typed_answered_and_refused(page: Any, site: Site) -> None:
    site.open(page, view="read", state="model=stories")
    page.get_by_role("button", name=STORY).wait_for()  # the models and the examples are there
    options = page.locator("select").first.locator("option").all_inner_texts()
    assert [option.partition(" ")[0] for option in options] == ["stories", "clips", "soft", "hard", "ram"], (
        "what is typed comes first, pictures come last, and translators have a view of their own"
    )
    page.get_by_role("button", name=STORY).click()
    page.locator(".regard-hops").wait_for()
    assert page.locator("textarea").input_value() == STORY
    assert page.locator(".regard-answer").inner_text() == "home"
    assert "97 %" in page.locator(".regard-sure[data-share]").inner_text()
    assert "2 before it in the queue" in page.locator("main").inner_text()
    page.locator("textarea").fill("Mary saw a zebra. Where is Mary?")
    page.locator("textarea").press("Control+Enter")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert alert.inner_text().split("\n\n") == [
        "the model does not know a word: got 'zebra'; expected mary, home.", "Try: say it in other words",
    ]  # fmt: skip
    assert address(page)["text"] == "Mary saw a zebra. Where is Mary?"


@needs_browser
def test_layers_are_shown_on_demand_and_stay_in_the_address(page: Any, site: Site) -> None:
    site.open(page, view="read", state="model=stories&text=Mary+went+home.+Where+is+Mary%3F")
    page.get_by_role("button", name="by layer and head").click()
    page.locator(".regard-matrix").wait_for()
    assert "layer.1" in page.locator(".regard-matrix figcaption").inner_text()
    page.get_by_label("layer", exact=True).select_option("0")
    page.locator("figcaption", has_text="layer.0").wait_for()
    kept = address(page)
    assert kept == {"model": "stories", "text": STORY, "layers": "yes", "l.layer": "0"}
    site.open(
        page,
        view="read",
        state="model=stories&text=Mary+went+home.+Where+is+Mary%3F&layers=yes&l.layer=0&l.row=0&l.column=1",
    )
    page.locator("figcaption", has_text="layer.0").wait_for()
    assert page.locator(".regard-matrix .regard-readout").get_attribute("data-weight") == "0.75"


@needs_browser
def test_a_clip_is_asked_by_its_number_alone(page: Any, site: Site) -> None:
    site.open(page, view="read", state="model=clips")
    page.get_by_role("button", name="scene 4").click()
    page.locator(".regard-hops").wait_for()
    assert json.loads(site.asked[-1][1]) == {"model": "clips", "example": 4, "settings": {}}
    assert page.locator("textarea").count() == 0


@needs_browser
@pytest.mark.parametrize("view", ["look", "read"])
def test_a_studio_without_a_fitting_model_says_what_to_do(view: str, page: Any, site: Site) -> None:
    only = site.answers["api/models"]
    site.answers["api/models"] = lambda _: {"models": MODELS[-1:]}
    try:
        site.open(page, view=view)
        page.locator(".regard-error").wait_for()
        assert "regard studio RUN" in page.locator(".regard-error").inner_text()
    finally:
        site.answers["api/models"] = only

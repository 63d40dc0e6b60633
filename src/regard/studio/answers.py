"""Answers of models as JSON: predictions with their explanations, layers by request, examples."""

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from regard.base import ConfigError, RegardError, shown, to_json
from regard.studio.limits import Limits

PICTURES = ("classification", "captioning", "picture_generation", "word_reading", "word_finding")  # tasks
PATHS = ("action_recognition",)  # tasks whose inputs are names of files: a client may not name one
_MOST = {"beams": "beams", "beam": "beams", "nbest": "beams", "max_tokens": "tokens", "min_steps": "tokens"}
_MORE = {"max_ratio": 4.0, "shown": 400, "memory": 1000, "length": 1000, "rows": 64, "batch_tokens": 65_536}
_SEED = re.compile(r"seed=\d{1,18}")


def text_of(body: Mapping[str, Any], limits: Limits, key: str = "text") -> str:
    """The text of a request, which may not be too long."""
    text = body.get(key)
    if not isinstance(text, str):
        raise ConfigError(f"the {key} of a request", got=shown(text), expected="a string")
    if len(text) > limits.characters:
        cure = "give it in parts"
        raise ConfigError(
            f"the {key} is too long",
            got=f"{len(text):,} characters",
            expected=f"at most {limits.characters:,}",
            cure=cure,
        )
    return text


def settings_of(body: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The settings of a request, none of them above its limit; the task checks what they mean."""
    settings = body.get("settings") or {}
    if not isinstance(settings, dict) or len(settings) > 40:
        raise ConfigError("the settings of a request", got=shown(settings), expected="values by name")
    for name, value in settings.items():
        if isinstance(value, list | dict):
            raise ConfigError(
                f"the setting {shown(name)}", got=shown(value), expected="a number, a word, true or false"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"the setting {shown(name)}", got=shown(value), expected="a number")
        most = getattr(limits, _MOST[name]) if name in _MOST else _MORE.get(name)
        if most is not None and isinstance(value, int | float) and value > most:
            cure = "the studio is for single answers; use the command line for more"
            raise ConfigError(f"the setting {name!r}", got=shown(value), expected=f"at most {most:g}", cure=cure)
    return settings


def input_of(model: Any, body: Mapping[str, Any], limits: Limits) -> Any:
    """What a model is given: a text, two texts, or the seed of an example that is drawn. Never the name of a file."""
    task = model.entry.name
    if task in PATHS:
        raise RegardError(f"{model.name} needs a file", got="a request", cure="use `regard predict` for files")
    if "text" not in body and "seed" in body:
        seed, length = body["seed"], body.get("length")
        numbers = [each for each in (seed, length) if each is not None]
        if not all(type(each) is int and 0 <= each < 2**62 for each in numbers):
            raise ConfigError("the seed of a request", got=shown([seed, length]), expected="whole numbers from 0")
        text = f"seed={seed}" + ("" if length is None else f" length={length}")
    else:
        text = text_of(body, limits)
    if task in PICTURES:
        return _wish(model, text)
    if "second" in body:
        return text, text_of(body, limits, "second")
    return text


def _wish(model: Any, text: str) -> str:
    """A text for a model of pictures, which would take any other string as the name of a file."""
    classes = getattr(getattr(model.task, "facts", None), "classes", ()) if model.entry.verb == "draw" else ()
    words = text.split()
    seeds = [word for word in words if _SEED.fullmatch(word)]
    kinds = [word for word in words if word in classes]
    drawn = model.entry.verb == "draw" and words and len(seeds) + len(kinds) == len(words)
    if not drawn or len(seeds) > 1 or len(kinds) > 1:
        raise RegardError(f"{model.name} is given pictures", got="a text", cure="drop a picture on the page")
    return text


def picture_of(content: bytes, limits: Limits) -> Any:
    """The pixels of a picture that was sent; its size is looked at before it is decoded."""
    from regard.data.images import read_image

    return read_image(content, max_pixels=limits.pixels, name="the picture")


def predict(model: Any, given: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The best answers to one input, as JSON."""
    [predictions] = model.predictions([given], **settings)
    return [prediction_json(prediction) for prediction in predictions]


def predict_example(model: Any, number: object) -> list[dict[str, Any]]:
    """The answer to an example by its number, for inputs that a page cannot send, such as clips."""
    from regard.api import example_prediction

    return [prediction_json(example_prediction(model, number))]


def layers(model: Any, given: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a model attended to for one input, by layer and head."""
    [[first, *_]] = model.predictions([given], **settings)
    return [explanation.to_json() for explanation in model.layers(first)]


def all_layers(model: Any) -> list[Any]:
    """The matrices of all layers of a translator for its first example: over the source, and of words over words."""
    given = examples(model)[0]["text"]
    [[first, *_]] = model.predictions([given])
    between: list[Any] = model.layers(first)
    try:
        source, target = (model.task.self_layers(model.module, first, side) for side in ("source", "target"))
    except ConfigError:  # words of a recurrent network do not attend to each other
        source = target = []
    if not (between or source):
        cure = "start the studio with another translator: tatoeba-en-fr"
        raise RegardError(f"{model.name} has no attention to look into", cure=cure)
    return [*source, *target, *between]


def prediction_json(prediction: Any) -> dict[str, Any]:
    """A prediction: its text, its explanations, and every other field that JSON can hold."""
    from regard.explanation import Explanation

    names = [field.name for field in fields(prediction)] if is_dataclass(prediction) else []
    plain = {}
    for name in names:
        value = getattr(prediction, name)
        if name not in ("text", "explanations", "weights", "image") and not isinstance(value, Explanation):
            plain[name] = _plain(value)
    plain = {name: value for name, value in plain.items() if value is not _ABSENT}
    explanations = [explanation.to_json() for explanation in getattr(prediction, "explanations", ())]
    return {"text": prediction.text, "explanations": explanations, **plain}


_ABSENT = object()


def _plain(value: Any) -> Any:
    """A value as JSON, or `_ABSENT` for what is large, or has no JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _plain(value.tolist()) if getattr(value, "size", 0) and len(value.shape) <= 1 else _ABSENT
    if isinstance(value, list | tuple):
        parts = [_plain(each) for each in value[:2000]]
        return _ABSENT if any(part is _ABSENT for part in parts) else parts
    if isinstance(value, Mapping):
        parts_by_name = {str(name): _plain(each) for name, each in value.items()}
        return {name: part for name, part in parts_by_name.items() if part is not _ABSENT}
    if is_dataclass(value):
        try:
            return to_json(value)
        except (RegardError, TypeError, ValueError):
            return _ABSENT
    return _ABSENT


def examples(model: Any, count: int = 6) -> list[dict[str, Any]]:
    """A few inputs for a model to begin with: of its data if they are here, else the one of its task."""
    from regard.api import first_inputs

    if model.entry.verb == "translate" and model.task.config.source == "en":
        return [{"text": text} for text in SENTENCES]  # a corpus would have to be read for others
    own = first_inputs(model, count)
    if own or model.entry.name in (*PICTURES, *PATHS):
        return own
    return [{"text": model.entry.example.strip('"')}]


SENTENCES = (
    "I lost my keys.",
    "Where did you buy this book?",
    "The cat is sleeping on the sofa.",
    "I did not know that you could speak French so well.",
    "She gave him a red apple.",
)

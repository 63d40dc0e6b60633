"""The reference: a page for each area, with an entry for every public name of its menu; `make docs` writes it."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LONG = 300  # letters of a value that is shown
_SPECIAL = re.compile(r"([\\*_\[\]<>$|#~^{}])")


def areas() -> list[str]:
    """The modules with a menu: the package itself, then every area that has names for Python code."""
    found = ["regard", *(f"regard.{path.parent.name}" for path in sorted(SOURCE.glob("*/__init__.py")))]
    return [name for name in found if getattr(importlib.import_module(name), "__all__", None)]


def page(area: str) -> str:
    """The page of one area."""
    menu = importlib.import_module(area)
    lines = [f"# {area}", "", described(inspect.getdoc(menu) or ""), ""]
    names = sorted(menu.__all__, key=lambda name: (not name[:1].isupper(), name.lower()))
    for name in names:
        lines += [*entry(name, menu), ""]
    return "\n".join(lines)


def entry(name: str, menu: ModuleType) -> Iterator[str]:
    """What is said of one name: its signature, its words, and for a class those of its public methods."""
    thing = getattr(menu, name)
    yield f"## `{name}`"
    yield ""
    if inspect.isclass(thing):
        yield from _class(name, thing)
    elif callable(thing) and hasattr(thing, "__name__"):
        yield _block("python", f"{name}{_signature(thing)}")
        yield described(inspect.getdoc(thing) or "")
    else:
        text = ", ".join(map(str, thing)) if isinstance(thing, dict | tuple | list | set) else repr(thing)
        kind = "a menu of names" if isinstance(thing, dict) else f"a value of type `{type(thing).__name__}`"
        yield f"{kind[0].upper()}{kind[1:]}:\n"
        yield _block("text", text[:_LONG] + ("…" if len(text) > _LONG else ""))


def _class(name: str, kind: type) -> Iterator[str]:
    yield _block("python", f"class {name}{_signature(kind).removesuffix(' -> None')}")
    own = kind.__dict__.get("__doc__") or ""
    automatic = own.startswith(f"{kind.__name__}(")  # what a dataclass writes where nothing stands
    yield described(inspect.cleandoc(own) if own and not automatic else "")
    yield ""
    for method, value in vars(kind).items():
        if method.startswith("_") or not inspect.getdoc(value):
            continue
        function: Any = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not (inspect.isfunction(function) or isinstance(value, property)):
            continue
        given = "" if isinstance(value, property) else _signature(function)
        yield _block("python", f"{kind.__name__}.{method}{given}")
        yield described(inspect.getdoc(value) or "")
        yield ""


def _block(language: str, code: str) -> str:
    """Code whose long lines are broken where the page ends."""
    return f"```{{code-block}} {language}\n:class: signature\n\n{code}\n```\n"


def _signature(thing: Any) -> str:
    """The parameters of a function or a class, as they are written; long ones on several lines."""
    try:
        signature = inspect.signature(inspect.unwrap(thing))
        given = [each for place, each in enumerate(signature.parameters.values()) if place or each.name != "self"]
        signature = signature.replace(parameters=given)
    except (ValueError, TypeError):
        return "(…)"
    text = ANSI.sub("", str(signature)).replace("regard._tests.", "")
    text = re.sub(r"<(?:object|function|class|factory)[^>]*>", "…", text)
    text = re.sub(r"\b(?:regard|torch|numpy|typing|collections\.abc|jaxtyping)(?:\.\w+)*\.(?=[A-Z])", "", text)
    return text if len(text) < 110 else _parted(text)


def _parted(text: str) -> str:
    """Each parameter on a line of its own."""
    depth, start, pieces = 0, 1, []
    end = text.rindex(")")
    for place, letter in enumerate(text[:end]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 1:
            pieces.append(text[start:place].strip())
            start = place + 1
    pieces.append(text[start:end].strip())
    return "(\n" + "".join(f"    {piece},\n" for piece in pieces if piece) + text[end:]


def described(doc: str) -> str:
    """A docstring as Markdown: examples in blocks, code as code, every other sign as it stands.

    >>> described("Adds *one* to `x`.")
    'Adds \\\\*one\\\\* to `x`.'
    """
    blocks = []
    for block in re.split(r"\n\s*\n", doc.strip()):
        if not block.strip():
            continue
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{block}\n```")
        elif block.startswith("    "):
            blocks.append(f"```text\n{block}\n```")
        else:
            parts = re.split(r"(`[^`\n]+`)", " ".join(block.split()) if not _is_list(block) else block)
            blocks.append("".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts))
    return "\n\n".join(blocks)


def _is_list(block: str) -> bool:
    return bool(re.match(r"\s*- ", block))


def write(folder: Path) -> list[str]:
    """All pages, into a folder; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for area in areas():
        (folder / f"{area}.md").write_text(page(area), encoding="utf-8")
        names.append(area)
    return names

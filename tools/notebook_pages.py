"""Notebooks as pages of the site: run from the first cell to the last, and written as Markdown with what they show."""

import base64
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def run(path: Path, *, timeout: int = 1800) -> Any:
    """The notebook with its outputs; an error of a cell is an error here. Runs in a folder that goes afterwards."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--IPKernelApp.log_level=ERROR"]  # each would warn that it is reached over TCP, on this machine
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=timeout, resources=place, extra_arguments=quiet)
        source = str(Path(__file__).parents[1] / "src")  # this clone, whatever else is installed
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    return notebook


def as_page(notebook: Any, name: str, pictures: Path) -> str:
    """The cells of a notebook as Markdown; its pictures go into a folder."""
    parts = []
    for number, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for place, output in enumerate(cell["outputs"]):
            parts.append(_output(output, f"{name}_{number}_{place}", pictures))
    link = f"The notebook itself: [{name}.ipynb](../../notebooks/{name}.ipynb)."
    return "\n\n".join(part for part in [*parts, link] if part) + "\n"


def _output(output: Any, name: str, pictures: Path) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{ANSI.sub('', ''.join(output['text'])).rstrip()}\n```"
    data = output.get("data", {})
    if "text/html" in data:
        html = "".join(data["text/html"])
        return "```{raw} html\n" + re.sub(r"\n\s*\n", "\n", html) + "\n```"
    if "image/png" in data:
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / f"{name}.png").write_bytes(base64.b64decode(data["image/png"]))
        return f"![A drawing](pictures/{name}.png)"
    text = "".join(data.get("text/plain", ""))
    return f"```text\n{text}\n```" if text else ""


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, without any library."""
    content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return content

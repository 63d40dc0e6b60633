"""The studio from a script or a notebook: show a trace, or keep what a long text asks of a model."""

import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from regard.studio.app import Studio
from regard.studio.serve import Server

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

    from regard.studio.calls import Calls

_RUNNING: dict[str, Any] = {}


def show(seen: Any, *, name: str = "trace", open_page: bool = True, port: int | None = None) -> str:
    """Show a trace of any PyTorch model on the page of the studio; the address of its overview.

    The first call starts a studio in a thread of this process, later calls add their traces to the same page. It ends
    with the process, or by `regard.studio.stop()`.
    """
    running = _RUNNING.get("server")
    if running is None:
        running = Server(Studio.of(), port=port)
        running.studio.traces.add(name, seen)
        shown_as = name
        running.start()
        _RUNNING["server"] = running
    else:
        shown_as = running.studio.traces.add(name, seen)
    url = f"{running.address.url}#/model?trace={quote(shown_as)}"
    if open_page:
        webbrowser.open(url)
    return url


def stop() -> None:
    """End the studio that `show` started, if there is one."""
    running = _RUNNING.pop("server", None)
    if running is not None:
        running.stop()


def record(model: "nn.Module", *, labels: Sequence[str] | None = None) -> "AbstractContextManager[Calls]":
    """Keep queries and keys of every call of torch's fused attention inside, for texts that are too long for a trace.

    `labels` are the tokens of the text. `calls.save("calls.safetensors")` writes a file that `regard studio` opens, and
    `show(calls)` shows it at once: the rows that somebody looks at are computed then.

    >>> import torch
    >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.ones(1, 4, 8)
    >>> with torch.no_grad(), record(layer) as calls:
    ...     _ = layer(x, x, x, need_weights=False)
    >>> calls.layers[0].block(0, slice(0, 1), slice(0, 4)).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    from regard.studio.calls import recording  # which needs torch

    return recording(model, labels=labels)

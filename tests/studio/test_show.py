import urllib.request
from typing import Any

import pytest
import torch

from regard.studio import record, show, stop


def test_show_opens_one_studio_for_all_traces(seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    try:
        first, second = show(seen, port=0), show(seen, name="other one", open_page=False)
        assert opened == [first]
        assert first.endswith("#/model?trace=trace")
        assert second.endswith("#/model?trace=other%20one")
        assert first.partition("#")[0] == second.partition("#")[0]
        token = first.partition("token=")[2].partition("#")[0]
        request = urllib.request.Request(first.partition("?")[0] + "api/traces", headers={"X-Regard-Token": token})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b"other one" in answer.read()
    finally:
        stop()
    stop()  # a second time there is nothing to end


def test_recorded_calls_are_shown() -> None:
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(1, 5, 8)
    with torch.no_grad(), record(layer, labels=list("abcde")) as calls:
        layer(x, x, x, need_weights=False)
    shown = calls.shown("it")
    assert shown.layers[0].row_labels == list("abcde")
    assert "computed from queries and keys" in shown.notes[0]

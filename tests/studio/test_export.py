import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from regard.base import RegardError
from regard.studio import answers
from regard.studio.app import STATIC, Studio
from regard.studio.export import export, hashed, key


def test_the_export_has_the_answers_of_its_page(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = {"translate": [{"text": "I lost my keys."}]}  # the others are exported without answers
    monkeypatch.setattr(answers, "examples", lambda model: says.get(model.entry.verb, []))
    told: list[str] = []
    page = export(studio, tmp_path / "site", told=told.append)
    assert page == tmp_path / "site" / "index.html"
    assert 'data-export="1"' in page.read_text()
    assert "<code>python -m http.server</code>" in page.read_text()  # for who opens it from disk
    about = json.loads((tmp_path / "site" / "answers" / "index.json").read_text())
    assert about["static"] is True
    assert {path.stem for path in (tmp_path / "site" / "answers").glob("*.json")} == {*about["answers"], "index"}
    body = {"model": "tatoeba-en-fr", "text": "I lost my keys.", "prefix": [], "settings": {"beams": 5, "nbest": 5}}
    events = json.loads((tmp_path / "site" / "answers" / f"{key('api/translate', body)}.json").read_text())
    assert events[-1]["prediction"]["text"] == "J'ai perdu mes clés."
    for path in ("api/models", "api/runs", "api/runs/going", "api/traces/small", "api/ledger"):
        assert key(path) in about["answers"]
    assert "the trace small" in told
    with pytest.raises(RegardError, match="is not empty"):
        export(studio, tmp_path / "site")


@pytest.mark.skipif(shutil.which("node") is None, reason="no node is installed")
def test_keys_are_those_of_the_page(tmp_path: Path) -> None:
    bodies: list[Any] = [None, {"b": [1, None, True], "a": 'é▁"\n\x01'}, {"x": {"d": [], "c": {}}, "text": "𝕏 \u2028"}]
    script = tmp_path / "keys.mjs"
    script.write_text(
        f"import {{ fileKey }} from {json.dumps(str(STATIC / 'api.js'))};\n"
        f"for (const body of {json.dumps(bodies)}) console.log(fileKey('api/é', body));"
    )
    out = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert out.stdout.split() == [key("api/é", body) for body in bodies], out.stderr


def test_hashes_differ() -> None:
    assert len({hashed(str(number).encode()) for number in range(2000)}) == 2000

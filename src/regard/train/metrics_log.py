"""What a training says of itself: a line of JSON for each event and, if asked, TensorBoard."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.base import RegardError, inside, parse_json, require, write_atomically

METRICS = "metrics.jsonl"


def read_records(path: Path) -> list[dict[str, Any]]:
    """The events in a file that `Records` wrote; none where there is no file.

    A line that says no event is passed over: a process may be writing it now, or was killed while it did.
    """
    records = []
    for line in inside(path).read_bytes().splitlines() if path.exists() else []:
        try:
            record = parse_json(line)
        except RegardError:
            continue
        if isinstance(record, dict) and isinstance(record.get("kind"), str) and type(record.get("step")) is int:
            records.append(record)
    return records


class Records:
    """`write` appends to metrics.jsonl; numbers go to folder/tensorboard too, as kind/name."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path = folder / METRICS
        self.board: Any = None
        if tensorboard:
            require("tensorboard", extra="tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / "tensorboard"))

    def write(self, record: Mapping[str, Any]) -> None:
        """One event: {"kind": "train", "step": 100, "loss": 4.2, …}."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self.board is not None:
            for name, value in record.items():
                if name not in ("kind", "step"):
                    self.board.add_scalar(f"{record['kind']}/{name}", value, record["step"])
            self.board.flush()

    def forget_after(self, step: int) -> None:
        """Drop what was said of later steps: they will be done again."""
        if self.path.exists():
            records = [
                record for record in read_records(self.path) if record["step"] <= step and record["kind"] != "end"
            ]
            write_atomically(self.path, "".join(json.dumps(record) + "\n" for record in records))

    def clear(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)

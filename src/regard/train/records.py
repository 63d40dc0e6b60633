"""What a training says of itself: a line of JSON for each event and, if asked, TensorBoard."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.base import require, write_atomically

METRICS = "metrics.jsonl"


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
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the process was killed in the middle of this line
            if record["step"] <= step and record["kind"] != "end":
                kept.append(line + "\n")
        write_atomically(self.path, "".join(kept))

    def clear(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)

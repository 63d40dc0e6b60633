"""Bars: of a training, with loss, speed and time left; and of work that counts what is done."""

import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from regard.train import Train

STOPPING = "Stopping: the step is finished and saved first; press Ctrl-C again to stop at once."
STOPPING_ALL = "Stopping: all processes finish the step, and it is saved first."


class Progress:
    """Call it with every event of a training; lines go above the bar. Without a terminal there are lines only."""

    def __init__(self, settings: Train, name: str = "", unit: str = "tokens") -> None:
        self.settings, self.unit = settings, unit
        by_time = settings.seconds is not None
        self.bar = tqdm(
            total=settings.steps if settings.seconds is None else max(1, round(settings.seconds)),
            desc=name or "training",
            unit="s" if by_time else "step",
            disable=None,  # no bar where stderr is no terminal
            dynamic_ncols=True,
            bar_format="{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]",
        )

    def __call__(self, kind: str, facts: Mapping[str, Any]) -> None:
        """One event."""
        if kind == "prepare":
            self.bar.set_postfix_str(f"{facts['what']}: {facts['done']:,} of {facts['of']:,}")
            if self.bar.disable and facts["done"] == facts["of"]:
                self._say(f"{facts['what']}: {facts['of']:,}")
        elif kind == "start":
            where = f" in {facts['part']}" if facts["part"] else ""
            new = f"; new: {', '.join(facts['new'])}" if facts["new"] else ""
            self._say(f"begins with the weights of {facts['run']}{where}{new}")
        elif kind == "step":
            if self.settings.seconds is None:
                self.bar.update(facts["step"] - self.bar.n)
        elif kind == "train":
            if self.settings.seconds is not None:
                self.bar.update(min(round(facts["seconds"]), self.bar.total) - self.bar.n)
            speed = f"{facts['per_second']:8,.0f} {self.unit}/s"
            self.bar.set_postfix_str(f"loss {facts['loss']:.3f}, {speed.strip()}")
            if self.bar.disable:
                self._say(f"step {facts['step']:6}   loss {facts['loss']:.3f}   {speed}")
        elif kind == "valid":
            figures = {k: v for k, v in facts.items() if k not in ("kind", "step", "seconds")}
            self._say(f"step {facts['step']:6}   valid: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
        elif kind == "stopping":  # by another thread, whatever this one is doing
            self._say(STOPPING if facts.get("again", True) else STOPPING_ALL)
        elif kind == "end":
            if self.settings.seconds is not None:
                self.bar.update(self.bar.total - self.bar.n)
            self.bar.close()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()  # what is said of an error begins on a line of its own

    def _say(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)


class Counter:
    """Call it with what is counted, how many are done, and of how many. Without a terminal it shows nothing.

    The bar goes when all is done, or when something else is counted: what follows it is the answer.
    """

    def __init__(self, name: str) -> None:
        self.name, self.what = name, ""
        self.bar: Any = None

    def __call__(self, what: str, done: int, of: int) -> None:
        """Move the bar to the number that is done."""
        if self.bar is None or what != self.what or of != self.bar.total:
            self.close()
            self.what = what
            self.bar = tqdm(
                total=of,
                desc=f"{self.name}, {what}",
                disable=None,  # no bar where stderr is no terminal
                leave=False,
                dynamic_ncols=True,
                bar_format="{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]",
            )
        self.bar.update(done - self.bar.n)
        self.bar.refresh()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

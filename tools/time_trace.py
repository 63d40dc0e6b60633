"""How soon a recorded text of 4,096 tokens in 32 layers of 32 heads stands on the studio's page, in a real Chromium.

python tools/time_trace.py [--rounds 5] [--tokens 4096]: seconds to all small pictures, and to the first matrix.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import open_browser, open_page

from regard.studio.app import Studio
from regard.studio.calls import CalledLayer, Calls
from regard.studio.serve import Server
from regard.studio.traces import Traces

LAYERS, HEADS, KEY_HEADS, WIDTH = 32, 32, 8, 64
PATIENCE = 60_000  # milliseconds


def write(path: Path, tokens: int) -> Path:
    """A trace of random queries and keys; every layer has its own."""
    torch.manual_seed(0)
    calls = Calls()
    calls.layers = [
        CalledLayer(
            f"layer {number}",
            torch.randn(HEADS, tokens, WIDTH).half(),
            torch.randn(KEY_HEADS, tokens, WIDTH).half(),
            0,
            WIDTH**-0.5,
            None,
        )
        for number in range(LAYERS)
    ]
    return calls.save(path)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--tokens", type=int, default=4096)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        path = write(Path(folder) / "large.safetensors", given.tokens)
        print(f"{path.stat().st_size / 1e9:.2f} GB")
        times = []
        for _ in range(given.rounds):
            before = time.perf_counter()
            traces = Traces()
            traces.add_file(path)
            server = Server(Studio.of(traces=traces), port=0)
            server.start()
            try:
                with open_page(browser) as page:
                    started = time.perf_counter()
                    page.goto(f"{server.address.url}#/model?trace=large&row={given.tokens - 96}")
                    page.wait_for_selector(f"canvas[data-layers='{LAYERS}'][data-heads='{HEADS}']", timeout=PATIENCE)
                    pictures = time.perf_counter()
                    page.wait_for_selector("td[data-weight]", timeout=PATIENCE)
                    times.append((started - before, pictures - started, time.perf_counter() - started))
            finally:
                server.stop()
            print("server {:.2f} s, small pictures {:.2f} s, first matrix {:.2f} s".format(*times[-1]))
        print(
            "medians: {:.2f}, {:.2f}, {:.2f} s".format(
                *(statistics.median(column) for column in zip(*times, strict=True))
            )
        )


if __name__ == "__main__":
    main()

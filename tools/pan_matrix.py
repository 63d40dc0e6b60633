"""How many frames a second a large matrix of the studio is drawn at while it is moved, in a real Chromium.

python tools/pan_matrix.py [--side 512] [--seconds 3]: fails below 30 frames a second.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import open_browser, open_page
from static_page import serve

from regard.explanation import Matrix

LEAST = 30  # frames a second
PAN = """async (seconds) => {
  const canvas = document.querySelector("canvas.regard-map"), area = canvas.getBoundingClientRect();
  const [x, y] = [area.left + 0.6 * area.width, area.top + 0.6 * area.height];
  const send = (kind, dx = 0, dy = 0) =>
    canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX: x + dx, clientY: y + dy, bubbles: true }));
  canvas.setPointerCapture = () => {}; // which wants a pointer that there is
  send("pointerdown");
  const start = await new Promise(requestAnimationFrame), work = [];
  let now = start;
  while (now < start + 1000 * seconds) {
    const before = performance.now();
    send("pointermove", 40 * Math.sin(work.length / 9), 40 * Math.cos(work.length / 7));
    work.push(performance.now() - before);
    now = await new Promise(requestAnimationFrame);
  }
  send("pointerup");
  work.sort((one, other) => one - other);
  return [(1000 * work.length) / (now - start), work[work.length >> 1]];
}"""


def main() -> int:
    """Print the frames of three zooms; 1 if one of them is below the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=3.0)
    asked = parser.parse_args()
    weights = np.random.default_rng(0).dirichlet(np.full(asked.side, 0.05), asked.side)
    words = [f"word {number}" for number in range(asked.side)]
    slowest = np.inf
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as site, open_browser() as browser:
        for zoom in (2, 8, 30):
            with open_page(browser, viewport={"width": 1000, "height": 900}) as page:
                site.open(page, Matrix(weights, words, words), state=f"zoom={zoom}&x=100&y=100")
                frames, work = page.evaluate(PAN, asked.seconds)
            print(
                f"{asked.side} × {asked.side}, zoom {zoom}: {frames:.0f} frames a second, {work:.1f} ms of script each"
            )
            slowest = min(slowest, frames)
    return int(slowest < LEAST)


if __name__ == "__main__":
    sys.exit(main())

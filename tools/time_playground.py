"""Time from an input event in the playground to the new picture, in a real Chromium.

    python tools/time_playground.py              every preset; needs Chromium and playwright

An event is dispatched, and the time is taken when the page has been laid out again and the next frame begins. The
bench draws inside of the event, so the first figure is its own work; the second has the wait for the frame too.
"""

import platform
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import open_browser, open_page
from static_pages import static_pages

EVENTS = 60
MEASURE = """async (events) => {
  const point = document.querySelector('.point[data-name=q]');
  const slider = document.querySelector('.bench input[type=range]');
  const [work, frame] = [[], []];
  for (let i = 0; i < events; i += 1) {
    await new Promise((done) => setTimeout(done, 20));
    const start = performance.now();
    if (point) {
      const key = i % 2 ? 'ArrowLeft' : 'ArrowRight';
      point.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    } else {
      slider.value = String(Number(slider.value) + (i % 2 ? 0.05 : -0.05));
      slider.dispatchEvent(new Event('input', {bubbles: true}));
    }
    document.body.getBoundingClientRect();
    work.push(performance.now() - start);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    frame.push(performance.now() - start);
  }
  return [work, frame];
}"""


def main() -> None:
    """Print the median, the 95th of a hundred, and the largest, in milliseconds, for each preset."""
    with static_pages() as base, open_browser() as browser, open_page(browser) as page:
        page.goto(f"{base}#playground?")
        page.wait_for_selector("body[data-ready]")
        presets = page.eval_on_selector(".playground select", "menu => [...menu.options].map((option) => option.value)")
        print(f"{EVENTS} events each, Chromium {browser.version}, {platform.machine()}")
        print(f"{'preset':<16}{'work: median':>14}{'95 %':>8}{'with frame: median':>20}{'95 %':>8}")
        for preset in presets:
            page.goto("about:blank")
            page.goto(f"{base}#playground?preset={preset}")
            page.wait_for_selector("body[data-ready]")
            work, frame = (sorted(times) for times in page.evaluate(MEASURE, EVENTS))
            most = int(0.95 * EVENTS)
            drawn, framed = statistics.median(work), statistics.median(frame)
            print(f"{preset:<16}{drawn:>14.1f}{work[most]:>8.1f}{framed:>20.1f}{frame[most]:>8.1f}")


if __name__ == "__main__":
    main()

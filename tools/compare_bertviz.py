"""What BertViz's model view needs for one text in 32 layers of 32 heads, beside which our page of a trace is measured.

    pip install bertviz==1.4.1 torch==2.13.0 ipython           # an environment of its own is best
    python tools/compare_bertviz.py --lengths 32 64 128 192    # seconds, memory and size of its page, at most 6 GiB
    python tools/compare_bertviz.py --open bertviz_32.html --modules node_modules

Weights are random. `--open` needs playwright and Chromium. BertViz's page asks a content network for require.js, d3 and
jquery; `npm install requirejs@2.3.6 d3@5.7.0 jquery@2.1.0` puts them into the folder that `--modules` names.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

FILES = {
    "require.min.js": "requirejs/require.js", "d3.min.js": "d3/dist/d3.min.js",
    "jquery.min.js": "jquery/dist/jquery.min.js",
}  # fmt: skip


def write(length: int, layers: int, heads: int, gigabytes: float) -> str:
    """Write the page of one length in this process, which has so much memory; what it took."""
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    import torch
    from bertviz import model_view  # type: ignore[import-not-found]

    start = time.perf_counter()
    try:
        weights = [torch.rand(1, heads, length, length).softmax(-1) for _ in range(layers)]
        page = model_view(weights, [f"w{place}" for place in range(length)], html_action="return").data
        path = Path(f"bertviz_{length}.html")
        path.write_text(f"<!doctype html><meta charset=utf-8><body>{page}</body>")
        result = f"{path}: {path.stat().st_size / 1e6:,.0f} MB"
    except (MemoryError, RuntimeError) as error:
        result = f"{type(error).__name__}: more than {gigabytes:g} GiB are needed"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{length:5} tokens {time.perf_counter() - start:7.1f} s, {peak:.1f} GiB at most, {result}"


def open_page(path: Path, modules: Path, seconds: float) -> str:
    """Open a page; the seconds until its squares stand, and its elements."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.route(
            "https://cdnjs.cloudflare.com/**",
            lambda route: route.fulfill(path=modules / FILES[route.request.url.rsplit("/", 1)[1]]),
        )
        start = time.perf_counter()
        try:
            page.goto(path.absolute().as_uri(), timeout=1000 * seconds)
            page.wait_for_selector("#vis svg", timeout=1000 * seconds)
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            result = "stands"
        except Error as error:
            result = str(error).splitlines()[0]
        taken, count = time.perf_counter() - start, page.evaluate("document.querySelectorAll('*').length")
        browser.close()
    return f"{path}: {result} after {taken:.1f} s, {count:,} elements"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[], metavar="TOKENS")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--memory", type=float, default=6, metavar="GIB")
    parser.add_argument("--open", type=Path, metavar="PAGE")
    parser.add_argument("--modules", type=Path, default=Path("node_modules"))
    parser.add_argument("--seconds", type=float, default=170)
    asked = parser.parse_args()
    if asked.open is not None:
        print(open_page(asked.open, asked.modules, asked.seconds))
    elif len(asked.lengths) == 1:
        print(write(asked.lengths[0], asked.layers, asked.heads, asked.memory), flush=True)
    else:
        common = ["--layers", str(asked.layers), "--heads", str(asked.heads), "--memory", str(asked.memory)]
        for length in asked.lengths:  # each in a process of its own: memory is given back
            subprocess.run([sys.executable, __file__, "--lengths", str(length), *common], check=False)


if __name__ == "__main__":
    main()

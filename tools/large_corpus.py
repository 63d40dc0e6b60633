"""Train on a corpus of any size, with kills, and see that memory stays flat and that nothing is lost.

    python tools/large_corpus.py --pairs 20000000 --folder /tmp/large

Makes two corpora from a seed, one of 20,000 pairs and one of `--pairs`, as packed files of made-up words. On each of
them a tiny Transformer is trained twice, from shards: once without a break, once with three SIGKILLs at random updates,
each followed by a resume. The weights of both must be equal to the bit. Then it prints for both corpora the seconds
of each part, what each process read, and the peak of its memory, which may differ by 200 MiB at most.
What it made is left in the folder; `--clean` removes it. Exit status 1 if something is not as it must be.
"""

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")
WORDS, FILES, CHUNK = 1000, 8, 100_000
SMALL, STEPS, KILLS, MOST = 20_000, 1000, 3, 200  # pairs, updates, kills, MiB
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
SETTINGS = [
    "task.reading=shards", "task.units=words", "task.vocabulary=8000", "task.lower=false", "task.batch_size=32",
    "task.batch_tokens=none", "task.smoothing=0", "model.dim=32", "model.hidden_dim=32", "model.num_heads=2",
    "model.encoder_layers=1", "model.decoder_layers=1", f"train.steps={STEPS}", f"train.evaluate_every={STEPS}",
    "train.save_every=50", "train.keep=2", "train.warmup=0", "train.log_every=100",
]  # fmt: skip


# ── a corpus ────────────────────────────────────────────────────────────────────────────────────────────────────────


def lexicon(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up words, each with a space behind it: letters [w 10], and how long they are [w]; the first is a mark."""
    draw = np.random.default_rng([seed, 1])
    table = np.unique(LETTERS[draw.integers(0, 26, (2 * WORDS, 9))], axis=0)
    table = draw.permutation(table)[:WORDS]
    lengths = draw.integers(4, 10, WORDS)
    table = np.concatenate([table, np.zeros((WORDS, 1), np.uint8)], axis=1)
    table[0, 0], lengths[0] = ord("."), 1
    table[np.arange(WORDS), lengths] = ord(" ")
    return table, lengths + 1


def text(words: np.ndarray, ends: np.ndarray, lexicon: tuple[np.ndarray, np.ndarray]) -> bytes:
    """Lines of these words; a line ends after each of `ends`."""
    letters, lengths = lexicon[0][words], lexicon[1][words]
    letters[ends, lengths[ends] - 1] = ord("\n")
    return letters[np.arange(letters.shape[1]) < lengths[:, None]].tobytes()


def generate(folder: Path, pairs: int, *, seed: int = 0) -> None:
    """FILES packed files a side: 2 to 7 words a sentence by Zipf's law and a mark, backward in the target."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    sides = lexicon(seed), lexicon(seed + 1)
    shares = np.cumsum(1 / np.arange(3, WORDS + 2))
    shares /= shares[-1]
    for number in range(FILES):
        draw, left = np.random.default_rng([seed, number]), pairs * (number + 1) // FILES - pairs * number // FILES
        paths = [folder / f"corpus.{number}.{side}.gz" for side in ("de", "en")]
        with gzip.open(paths[0], "wb", 1) as source, gzip.open(paths[1], "wb", 1) as target:
            while left:
                size = min(left, CHUNK)
                ends = np.cumsum(draw.integers(3, 9, size))
                words = 1 + np.searchsorted(shares, draw.random(ends[-1]))
                starts = np.concatenate([[0], ends[:-1]])
                words[ends - 1] = 0
                line, place = np.repeat(np.arange(size), ends - starts), np.arange(len(words))
                backward = words[np.where(place == ends[line] - 1, place, starts[line] + ends[line] - 2 - place)]
                source.write(text(words, ends - 1, sides[0]))
                target.write(text(backward, ends - 1, sides[1]))
                left -= size
    (folder / "done").touch()


# ── one process that trains; it says what it took, and may end by SIGKILL ───────────────────────────────────────────


def memory() -> float:
    """The peak of the resident memory of this process, MiB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024


def bytes_read() -> int:
    with open("/proc/self/io", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("rchar")).split()[1])


def train(corpus: Path, run: Path, kill_at: int) -> None:
    import torch

    from regard import api
    from regard.recipes import RECIPES, change, with_files

    torch.set_num_threads(1)
    recipe = with_files(
        RECIPES["transformer/small_en_fr"](), str(corpus / "corpus.*.de.gz"), str(corpus / "corpus.*.en.gz")
    )
    begun, parts, before = time.perf_counter(), {}, bytes_read()

    def say(**facts: Any) -> None:
        seconds = {what: round(last - first, 1) for what, (first, last) in parts.items()}
        content = {
            "peak_mib": round(memory(), 1),
            "read_mib": round((bytes_read() - before) / 2**20, 1),
            "parts": seconds,
        }
        with open(run.with_suffix(".jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({**facts, **content, "seconds": round(time.perf_counter() - begun, 1)}) + "\n")

    def watch(kind: str, facts: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if kind == "prepare":
            parts[facts["what"]] = (parts.get(facts["what"], (now, now))[0], now)
        if kind == "step":
            parts["updates"] = (parts.get("updates", (now, now))[0], now)
        if kind == "step" and facts["step"] == kill_at:
            say(killed=kill_at)
            os.kill(os.getpid(), signal.SIGKILL)

    api.train(change(recipe, SETTINGS), run, resume=True, watch=watch)
    say(killed=0)


def measured(corpus: Path, run: Path, kills: list[int]) -> list[dict[str, Any]]:
    """A training that is killed at these updates, each time in a process of its own; what each of them took."""
    for at in [*kills, 0]:
        command = [sys.executable, __file__, "--child", str(corpus), str(run), str(at)]
        ended = subprocess.run(command, env={**os.environ, "REGARD_CACHE": str(corpus.parent / "cache")}).returncode
        if ended != (-signal.SIGKILL if at else 0):
            raise SystemExit(f"a training ended with status {ended}, killed at {at}")
    return [json.loads(line) for line in run.with_suffix(".jsonl").read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000, help="of the large corpus (default: 2,000,000)")
    parser.add_argument("--folder", type=Path, default=Path("large_corpus"), help="where all of it goes")
    parser.add_argument("--seed", type=int, default=0, help="of the corpora and of the kills (default: 0)")
    parser.add_argument("--clean", action="store_true", help="remove the folder at the end")
    parser.add_argument("--child", nargs=3, metavar=("CORPUS", "RUN", "KILL"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        train(Path(asked.child[0]), Path(asked.child[1]), int(asked.child[2]))
        return 0
    faults, peaks, place = [], {}, asked.folder.absolute()
    for pairs in (SMALL, asked.pairs):
        corpus, begun = place / f"pairs_{pairs}", time.perf_counter()
        generate(corpus, pairs, seed=asked.seed)
        size = sum(path.stat().st_size for path in corpus.glob("*.gz"))
        print(
            f"{pairs:,} pairs: {size / 2**20:,.0f} MiB in {2 * FILES} files, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
        kills = sorted(random.Random(asked.seed + pairs).sample(range(1, STEPS), KILLS))
        for name, at in (("undisturbed", []), ("killed", kills)):
            run = place / f"{name}_{pairs}"
            shutil.rmtree(run, ignore_errors=True)
            run.with_suffix(".jsonl").unlink(missing_ok=True)
            records = measured(corpus, run, at)
            peaks[pairs] = max([peaks.get(pairs, 0.0), *(record["peak_mib"] for record in records)])
            print(*(f"  {name}: {json.dumps(record)}" for record in records), sep="\n", flush=True)
        one, other = (
            (place / f"{name}_{pairs}" / "model.safetensors").read_bytes() for name in ("undisturbed", "killed")
        )
        print(f"  killed at {kills}; weights bit-equal: {one == other}", flush=True)
        faults += [] if one == other else [f"the weights of {pairs:,} pairs differ"]
    more = peaks[asked.pairs] - peaks[SMALL]
    print(
        f"peak memory: {peaks[SMALL]:,.0f} MiB with {SMALL:,} pairs, {peaks[asked.pairs]:,.0f} MiB with {asked.pairs:,}"
    )
    print(f"difference: {more:,.0f} MiB, at most {MOST}")
    faults += [] if more <= MOST else ["memory grows with the corpus"]
    if asked.clean:
        shutil.rmtree(place)
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Search on one GPU: the plain one, ours over fixed shapes with recorded steps, and `generate` of Hugging Face.

    python benchmarks/search_gpu.py                      # everything, in less than four minutes
    python benchmarks/search_gpu.py --parts transformer one
    python benchmarks/search_gpu.py --check              # only compares, at small sizes; on a CPU too
    python benchmarks/search_gpu.py --parts transformer --top 25    # and which kernels take most of the time
    python benchmarks/search_gpu.py --ratios             # plain / fixed on one thread of a CPU, in processor seconds
    git worktree add ../before 423e899                   # the last version with the plain search alone
    python benchmarks/search_gpu.py --parts rnnsearch luong gnmt convs2s --earlier ../before

Models are those of the recipes, with random weights and 8,000 words; sentences have the lengths of captions, 4 to 40
sub-words. "10 steps" forces every sentence to exactly 10 steps. "ragged" ends every sentence at a length of its own, 5
to 40 steps, as real ones do. Rates are tokens a second, weights of what was found included and on the host; the text
itself is not part of it. Each way takes its turn in each round, and medians are given. The plain search runs with
`batch_tokens` as shipped and with one batch of all sentences, in float32 and with weights in bfloat16.

Recording happens in a round that is not counted; its seconds are printed. Before anything is timed, scores of the plain
search and of ours in float32 are compared: see gate.py. Tokens that are equal are counted. Marian of Hugging Face has
the same weights (see hugging_face.py) and gets the better of its batches. With `--earlier` the plain search of another
version of this code, in a process of its own, takes its turn in the same rounds, in the same three ways.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gate import check_results
from hugging_face import build_peer, copy_weights
from plain_search import FORBIDDEN, STEPS, WORDS, Earlier, Found, PlainSentences, build, in_half
from timing import append, side_by_side
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard.data import PAD
from regard.tasks import Search
from regard.tasks.fast_search import FastSearch, rules_of
from regard.tasks.search import find_best

PARTS = ("transformer", "ragged", "one", "rnnsearch", "luong", "gnmt", "convs2s", "captions")


class Sentences(PlainSentences):
    """The same, searched in the other ways too."""

    def fast(self, search: FastSearch, how: Search) -> Found:
        """Ours over fixed shapes; weights come to the host by themselves."""
        found: Found = [[] for _ in self.pairs]
        rules = replace(rules_of(how, FORBIDDEN), min_steps=self.min_steps)
        for batch in search.batches(self.pairs, rules, max_tokens=how.batch_tokens, ratio=0.0):
            here = search.find_texts(batch.source, batch.source_lengths, rules, self.last[batch.indices])
            for number, each in zip(batch.indices, here, strict=True):
                found[number] = each
        return found

    def generate(self, peer: Any, beams: int, size: int) -> Tensor:
        """Hugging Face's search."""
        ordered = sorted(self.pairs, key=lambda pair: len(pair[0]))
        out = torch.empty(0)
        for start in range(0, len(ordered), size):
            lines = [torch.tensor([*source, 2]) for source, _ in ordered[start : start + size]]
            source = torch.nn.utils.rnn.pad_sequence(lines, batch_first=True).to(self.device)
            out = peer.generate(
                source, attention_mask=(source != PAD).long(), num_beams=beams, do_sample=False, max_new_tokens=STEPS,
                min_new_tokens=STEPS, eos_token_id=2, pad_token_id=PAD, length_penalty=0.0,
            )  # fmt: skip
        return out.cpu()


def compare(name: str, ours: Found, plain: Found) -> None:
    """Counts equal tokens and looks at the scores; refuses ours where scores of other tokens differ too."""
    same = sum(a[0].tokens == b[0].tokens for a, b in zip(ours, plain, strict=True))
    scores = [torch.tensor([each[0].score for each in found], dtype=torch.float64) for found in (ours, plain)]
    apart = (scores[0] - scores[1]).abs().max().item()
    print(f"  {name}: {same} of {len(plain)} have equal tokens; scores differ by {apart:.1e} at most", flush=True)
    if "bfloat16" not in name:
        exact = {"scores": scores[1]}
        check_results({name: {"scores": scores[0]}}, eager=exact, exact=exact, rounding=1e-4)


def ways_of(
    sentences: Sentences, model: Any, how: Search, earlier: Earlier | None
) -> tuple[dict[str, Callable[[], object]], dict[str, FastSearch]]:
    """Every way of ours to search, by name."""
    ways: dict[str, Callable[[], object]] = {}
    models, shipped = {False: model, True: in_half(model)}, max(1, 4096 // how.beams)
    for name, most, half in (("as shipped", shipped, False), ("one batch", 10**9, False),
                             ("one batch, bfloat16", 10**9, True)):  # fmt: skip
        ways[f"plain, {name}"] = partial(sentences.plain, models[half], how, most)
        if earlier is not None:
            ways[f"earlier, {name}"] = partial(earlier.find, how, most, half=half)
    kept = {"fixed, float32": FastSearch(model), "fixed, bfloat16": FastSearch(model, torch.bfloat16)}
    for name, search in kept.items():
        ways[name] = lambda search=search: sentences.fast(search, how)
    return ways, kept


def time_ways(
    part: str, case: str, tokens: int, ways: dict[str, Callable[[], object]], kept: dict[str, FastSearch], rounds: int
) -> list[dict[str, object]]:
    """A first round that is said, then medians."""
    for name, run in ways.items():
        start = time.perf_counter()
        run()
        recorded = f", {kept[name].seconds:.2f} s of it recording" if name in kept else ""
        print(f"  {name}: first {time.perf_counter() - start:.2f} s{recorded}", flush=True)
    seconds = side_by_side(ways, rounds=rounds, warm_up=1)
    rates = {name: tokens / statistics.median(times) for name, times in seconds.items()}
    best = {kind: max((rate for name, rate in rates.items() if name.startswith(kind)), default=None)
            for kind in ("plain", "earlier")}  # fmt: skip
    rows: list[dict[str, object]] = []
    for name, rate in rates.items():
        beside = "".join(f"  {rate / other:6.2f} × the best {kind} one" for kind, other in best.items() if other)
        print(f"    {part:12} {case:18} {name:28} {rate:12,.0f} tokens/s{beside}", flush=True)
        rows.append({"model": part, "case": case, "way": name, "tokens_per_second": round(rate)})
    return rows


def print_kernels(name: str, search: Callable[[], object], top: int) -> None:
    """How long a GPU works in one search, and in which kernels; what the clock shows beyond that is the host's."""
    start = time.perf_counter()
    search()
    torch.cuda.synchronize()
    whole = 1e3 * (time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CUDA]) as recorder:
        search()
        torch.cuda.synchronize()
    kernels: dict[str, list[float]] = defaultdict(list)
    for event in recorder.events() or ():
        if event.device_time:
            kernels[event.name].append(event.device_time / 1e3)
    work, calls = sum(sum(times) for times in kernels.values()), sum(map(len, kernels.values()))
    print(f"  {name}: {whole:.2f} ms, of which {calls} kernels take {work:.2f} ms", flush=True)
    for kernel, times in sorted(kernels.items(), key=lambda item: -sum(item[1]))[:top]:
        print(f"    {sum(times):8.3f} ms {len(times):5} × {kernel[:90]}", flush=True)


@torch.no_grad()
def translator_part(part: str, device: torch.device, asked: argparse.Namespace) -> list[dict[str, object]]:
    """One translator: greedy and beam 5; with Marian beside the Transformer."""
    ragged, name = part == "ragged", "transformer" if part == "ragged" else part
    words = 300 if asked.check else WORDS
    sentences = Sentences(asked.sentences, device, ragged=ragged, words=words)
    model, rows = build(name, device, words=words), []
    with ExitStack() as stack:
        earlier = None
        if asked.earlier is not None:
            earlier = stack.enter_context(Earlier(asked.earlier, name, asked.sentences, words=words, ragged=ragged))
        for beams in asked.beams:
            how = Search(beams=beams, length_penalty=0.0)
            case = f"{'ragged' if ragged else f'{STEPS} steps'}, {'greedy' if beams == 1 else f'beam {beams}'}"
            print(f"\n{part}, {case}, {len(sentences.pairs)} sentences", flush=True)
            ways, kept = ways_of(sentences, model, how, earlier)
            plain = sentences.plain(model, how, 4096)
            for way, search in kept.items():
                compare(way, sentences.fast(search, how), plain)
            if earlier is not None:
                today = sum(len(each[0].tokens) for each in plain)
                print(f"  tokens of the plain search: {earlier.find(how, 4096, half=False)} earlier, {today} today")
            if asked.check:
                continue
            for way, search in kept.items() if asked.top else ():
                print_kernels(way, partial(sentences.fast, search, how), asked.top)
            if part == "transformer":
                peer = build_peer(model.config)
                copy_weights(model.cpu(), peer)
                model.to(device)
                peer = peer.to(device, torch.bfloat16).eval()
                for size in (250, len(sentences.pairs)):
                    ways[f"Hugging Face, bfloat16, {size}"] = partial(sentences.generate, peer, beams, size)
            rows += time_ways(part, case, sentences.tokens, ways, kept, asked.rounds)
    return rows


@torch.no_grad()
def one_part(device: torch.device, asked: argparse.Namespace) -> list[dict[str, object]]:
    """One sentence at a time, after recording."""
    model, rows = build("transformer", device), []
    sentences = [Sentences(1, device)] * (2 if asked.check else 20)
    for beams in (1, 5):
        how = Search(beams=beams, length_penalty=0.0)
        print(f"\none sentence, {'greedy' if beams == 1 else f'beam {beams}'}", flush=True)
        kept = {"fixed, float32": FastSearch(model), "fixed, bfloat16": FastSearch(model, torch.bfloat16)}
        compare("fixed, float32", sentences[0].fast(kept["fixed, float32"], how), sentences[0].plain(model, how, 4096))
        if asked.check:
            continue
        ways: dict[str, Callable[[], object]] = {
            "plain": lambda how=how: [each.plain(model, how, 4096) for each in sentences]
        }
        for name, search in kept.items():
            ways[name] = lambda search=search, how=how: [each.fast(search, how) for each in sentences]
        tokens = STEPS * len(sentences)
        rows += time_ways("one sentence", f"beam {beams}", tokens, ways, kept, asked.rounds)
    return rows


@torch.no_grad()
def captions_part(device: torch.device, asked: argparse.Namespace) -> list[dict[str, object]]:
    """Captions of random features, 40 prefixes and consensus."""
    model = build("captions", device, words=300 if asked.check else 3000)
    shown = torch.rand(6 if asked.check else 200, 196, 512, device=device)
    how, longest = Search(beams=40, length_penalty=0.0, consensus=0.7), 12 if asked.check else 20
    half = in_half(model)

    def plain(made: Any, pictures: int) -> Found:
        found: Found = []
        for chunk in torch.split(shown, pictures):
            options = {"batch": len(chunk), "bos": 1, "eos": 2, "max_steps": longest, "forbidden": FORBIDDEN}
            found += find_best(made, made.init_state(made.encode(chunk)), how, **options)
        return found

    def fast(search: FastSearch) -> Found:
        return search.of_pictures(shown, rules_of(how, FORBIDDEN), how, longest, {}, None)

    print(f"\ncaptions, beam 40, consensus, {len(shown)} pictures", flush=True)
    kept = {"fixed, float32": FastSearch(model), "fixed, bfloat16": FastSearch(model, torch.bfloat16)}
    expected = plain(model, 25)
    for name, search in kept.items():
        compare(name, fast(search), expected)
    if asked.check:
        return []
    ways: dict[str, Callable[[], object]] = {
        "plain, as shipped": lambda: plain(model, 25),
        "plain, one batch, bfloat16": lambda: plain(half, len(shown)),
        **{name: lambda search=search: fast(search) for name, search in kept.items()},
    }
    return time_ways("captions", "beam 40, consensus", longest * len(shown), ways, kept, min(2, asked.rounds))


@torch.no_grad()
def print_ratios() -> None:
    """On a CPU, where nothing is recorded: processor seconds of the plain search by those over fixed shapes."""
    torch.set_num_threads(1)
    device = torch.device("cpu")
    for part, count, beams in (("transformer", 1, 1), ("transformer", 1, 5), ("transformer", 40, 1),
                               ("transformer", 40, 5), ("rnnsearch", 20, 5)):  # fmt: skip
        sentences, model, how = Sentences(count, device), build(part, device), Search(beams=beams, length_penalty=0.0)
        search, most = FastSearch(model), max(1, 4096 // beams)
        compare("fixed, float32", sentences.fast(search, how), sentences.plain(model, how, most))
        spent: dict[str, list[float]] = {"plain": [], "fixed": []}
        for _ in range(5):
            for name, run in (("plain", partial(sentences.plain, model, how, most)),
                              ("fixed", partial(sentences.fast, search, how))):  # fmt: skip
                start = time.process_time()
                run()
                spent[name].append(time.process_time() - start)
        quotient = statistics.median(spent["plain"]) / statistics.median(spent["fixed"])
        print(f"{part}, {count} sentences, beam {beams}: plain / fixed {quotient:.2f}", flush=True)


def main() -> None:
    """Every part, in order, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is compared and timed")
    parser.add_argument("--sentences", type=int, default=1000, help="how many are translated")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5], help="of translators: 1 is greedy")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way takes its turn")
    parser.add_argument("--limit", type=float, default=240, help="seconds after which no further part begins")
    parser.add_argument("--check", action="store_true", help="only compare, at small sizes; on a CPU too")
    parser.add_argument("--ratios", action="store_true", help="on one thread of a CPU, in processor seconds")
    parser.add_argument("--top", type=int, default=0, help="of translators: print so many kernels of a search")
    parser.add_argument("--earlier", type=Path, metavar="FOLDER", help="of translators: another version takes turns")
    parser.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = parser.parse_args()
    device, start = torch.device("cuda" if torch.cuda.is_available() else "cpu"), time.perf_counter()
    if asked.ratios:
        print_ratios()
        return
    if device.type == "cpu" and not asked.check:
        raise SystemExit("this benchmark needs a CUDA device; --check compares without one")
    asked.sentences = min(asked.sentences, 12) if asked.check else asked.sentences
    for part in asked.parts:
        if time.perf_counter() - start > asked.limit:
            print(f"no time is left for {part}")
            continue
        run = {"one": one_part, "captions": captions_part}.get(part)
        rows = translator_part(part, device, asked) if run is None else run(device, asked)
        if asked.save and rows:
            append("search_gpu.csv", rows)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()

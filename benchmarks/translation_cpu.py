"""How fast does the Transformer train and translate on a CPU, beside Marian of Hugging Face with the same weights?

    pip install transformers     (a peer and not a dependency of regard: best in an environment of its own)
    python benchmarks/translation_cpu.py
    python benchmarks/translation_cpu.py --layers 6 --dim 512 --hidden 2048 --sentences 64 --batch 32

Before training is timed, logits and gradients are compared with Marian in float64 (gate.py). Before decoding is timed,
the translations are: at least 95 % must be the same as Marian's, and the share is printed and kept. Rounding turns some
near ties in a beam, so it is not always 100 %.
"""

import argparse
import copy
import itertools
import statistics
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from gate import NUDGES, Results, WrongResult, check_results, describe, nudge
from hugging_face import SMOOTHING, build_peer, copy_weights, parameter_pairs, peer_loss
from timing import append, ratio, side_by_side
from torch import Tensor, nn

from regard.data import BOS, EOS, PAD, Pair, SubwordCodec, TokenBatch, TokenBatches, collate
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.decode import beam_search
from regard.models import Transformer, TransformerConfig
from regard.nn import token_loss

SUBWORDS, UNUSED = 7000, -1  # the last entry of the vocabulary is no subword: as EOS it never comes
MORE_STEPS = 10  # a translation may be so much longer than the longest source of its batch
BEAMS, LEAST_SHARE = 5, 0.95  # of translations that must be equal

Rows = list[dict[str, object]]
Search = Callable[..., list[list[int]]]
Logits = Callable[[nn.Module, TokenBatch], Tensor]
LossOf = Callable[[Tensor, Tensor], Tensor]


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


def our_logits(model: nn.Module, batch: TokenBatch) -> Tensor:
    return model(batch.source, batch.source_lengths, batch.inputs).logits


def their_logits(model: nn.Module, batch: TokenBatch) -> Tensor:
    mask = (batch.source != PAD).long()
    return model(batch.source, attention_mask=mask, decoder_input_ids=batch.inputs, use_cache=False).logits


def our_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return token_loss(logits, targets, smoothing=SMOOTHING, ignore=PAD)


def trainer(
    model: nn.Module,
    logits: Logits,
    loss: LossOf,
    batches: Iterator[TokenBatch],
    *,
    bf16: bool = False,
) -> Callable[[], float]:
    """One step at each call: the same optimiser, fused, for all; the rate rises for 100 steps, then falls by √steps."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1.5e-3, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: min((n + 1) / 100, (100 / (n + 1)) ** 0.5))

    def step() -> float:
        model.train()
        batch = next(batches)
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            found = logits(model, batch)
        mean = loss(found, batch.targets) / batch.num_tokens
        optimiser.zero_grad()
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        return mean.item()

    return step


def training_rows(ours: Transformer, theirs: nn.Module, pairs: list[Pair], asked: argparse.Namespace) -> Rows:
    stream = TokenBatches(pairs, max_tokens=asked.tokens, seed=0)
    batches = [next(stream) for _ in range(asked.rounds + 2)]
    same_result(ours, theirs, batches[0])
    steps = {
        "regard": trainer(ours, our_logits, our_loss, iter(batches)),
        "Marian": trainer(theirs, their_logits, peer_loss, iter(batches)),
    }
    if asked.bf16:
        steps["regard, bf16"] = trainer(ours, our_logits, our_loss, iter(batches), bf16=True)
        steps["Marian, bf16"] = trainer(theirs, their_logits, peer_loss, iter(batches), bf16=True)
    seconds = side_by_side(steps, rounds=asked.rounds)
    tokens = [batch.num_tokens for batch in batches[2:]]
    return table("training", "target tokens/s", seconds, tokens)


def same_result(ours: Transformer, theirs: nn.Module, batch: TokenBatch) -> None:
    """No figure without a right result: logits and gradients of both, beside Marian in float64."""
    real = batch.targets != PAD

    def results(model: nn.Module, logits: Logits, loss: LossOf, parameters: list[nn.Parameter]) -> Results:
        model.eval()
        found = logits(model, batch)
        gradients = torch.autograd.grad(loss(found, batch.targets) / batch.num_tokens, parameters)
        return {"logits": found[real], "gradients": gradients}

    here, there = parameter_pairs(ours, theirs)
    found = {"regard": results(ours, our_logits, our_loss, here)}
    found["Marian"] = results(theirs, their_logits, peer_loss, there)
    in_double = copy.deepcopy(theirs).double()
    exact = results(in_double, their_logits, peer_loss, parameter_pairs(ours, in_double)[1])
    nudged = []
    for seed in range(NUDGES):
        moved = copy.deepcopy(in_double)
        nudge(moved, seed)
        nudged.append(results(moved, their_logits, peer_loss, parameter_pairs(ours, moved)[1]))
    print(describe(check_results(found, eager=found["Marian"], exact=exact, nudged=nudged)))


# ── decoding ────────────────────────────────────────────────────────────────────────────────────────────────────────


def our_search(model: Transformer, batch: TokenBatch, *, steps: int, eos: int = EOS) -> list[list[int]]:
    with torch.inference_mode():
        packed = model.packed()  # as `translate` searches on a CPU
        state = packed.init_state(packed.encode(batch.source, batch.source_lengths))
        found = beam_search(packed, state, batch=len(batch), bos=BOS, eos=eos, beams=BEAMS, max_steps=steps)
    return [best[0].tokens for best in found]


def their_search(
    model: Any, batch: TokenBatch, *, steps: int, eos: int = EOS, early_stopping: bool = False
) -> list[list[int]]:
    options = {"num_beams": BEAMS, "do_sample": False, "length_penalty": 0.0, "early_stopping": early_stopping}
    with torch.inference_mode():
        mask = (batch.source != PAD).long()
        found = model.generate(
            batch.source, attention_mask=mask, max_new_tokens=steps, eos_token_id=eos, pad_token_id=PAD, **options
        )
    return [list(itertools.takewhile(lambda token: token != eos, row))[:steps] for row in found[:, 1:].tolist()]


def decoding_rows(ours: Transformer, theirs: nn.Module, pairs: list[Pair], asked: argparse.Namespace) -> Rows:
    chosen = sorted(pairs[:: len(pairs) // asked.sentences][: asked.sentences], key=lambda pair: len(pair[0]))
    batches = [collate(chosen[start : start + asked.batch]) for start in range(0, len(chosen), asked.batch)]
    ours.eval()
    theirs.eval()

    def natural(search: Search, model: nn.Module, **options: Any) -> Callable[[], list[list[int]]]:
        def run() -> list[list[int]]:
            steps = [batch.source.shape[1] + MORE_STEPS for batch in batches]
            return [
                row
                for batch, most in zip(batches, steps, strict=True)
                for row in search(model, batch, steps=most, **options)
            ]

        return run

    def fixed(search: Search, model: nn.Module) -> Callable[[], list[list[int]]]:
        never = asked.vocabulary + UNUSED
        return lambda: [row for batch in batches for row in search(model, batch, steps=asked.steps, eos=never)]

    searches = {
        "until the end": {
            "regard": natural(our_search, ours),
            "Marian": natural(their_search, theirs),
            "Marian, early_stopping": natural(their_search, theirs, early_stopping=True),
        },
        f"{asked.steps} steps": {"regard": fixed(our_search, ours), "Marian": fixed(their_search, theirs)},
    }
    rows: Rows = []
    for case, candidates in searches.items():
        expected = candidates["Marian"]()
        shares = {name: share_of_equal(candidate(), expected) for name, candidate in candidates.items()}
        for name, share in shares.items():
            print(f"  {case}, {name}: {share:.1%} of the translations are those of Marian")
            check_share(name, share)
        length = statistics.mean(map(len, expected))
        seconds = side_by_side(candidates, rounds=asked.decoding_rounds)
        counts = [len(chosen)] * asked.decoding_rounds
        timed = table(f"beam {BEAMS}, {case}, mean length {length:.1f}", "sentences/s", seconds, counts)
        rows += [{**row, "same_translations": round(shares[str(row["candidate"])], 4)} for row in timed]
    return rows


def share_of_equal(translations: list[list[int]], expected: list[list[int]]) -> float:
    """The share of translations that are the same, token by token."""
    return sum(here == there for here, there in zip(translations, expected, strict=True)) / len(expected)


def check_share(name: str, share: float) -> None:
    """Refuse a search that finds other translations: a few near ties are turned by rounding, more is another search."""
    if not share >= LEAST_SHARE:
        raise WrongResult(f"{name}: only {share:.1%} of the translations are those of Marian; nothing was timed")


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def table(mode: str, unit: str, seconds: dict[str, list[float]], counts: list[int]) -> Rows:
    """Speed of each candidate, and how often that of Marian: medians over the rounds."""
    rows: Rows = []
    for name, times in seconds.items():
        speed = statistics.median(count / time for count, time in zip(counts, times, strict=True))
        times_marian = ratio(seconds["Marian"], times)
        rows.append(
            {"mode": mode, "candidate": name, "speed": round(speed, 1), "unit": unit, "ratio": round(times_marian, 3)}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = {"layers": 3, "dim": 256, "hidden": 512, "heads": 8, "vocabulary": 8000, "tokens": 2048, "rounds": 12}
    numbers |= {"sentences": 128, "batch": 64, "steps": 15, "decoding-rounds": 5, "threads": 2}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--learn", type=int, default=300, help="steps of training before decoding, so that sentences end"
    )
    parser.add_argument(
        "--bf16", action=argparse.BooleanOptionalAction, default=has_amx(), help="bfloat16 autocast too"
    )
    parser.add_argument("--no-save", action="store_true", help="do not add to results/translation_cpu.csv")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(asked.threads)
    sizes = {"dim": asked.dim, "hidden_dim": asked.hidden, "num_heads": asked.heads, "dropout": 0.1}
    layers = {"encoder_layers": asked.layers, "decoder_layers": asked.layers}
    ours = Transformer(TransformerConfig(asked.vocabulary, asked.vocabulary, **sizes, **layers))
    theirs = build_peer(ours.config)
    copy_weights(ours, theirs)

    splits = tatoeba_plain()
    train, test = splits["train"], splits["test"]
    codec = SubwordCodec.train([*train.source, *train.target], size=SUBWORDS)
    train_pairs, test_pairs = (
        [(codec.encode_text(a), codec.encode_text(b)) for a, b in zip(text.source, text.target, strict=True)]
        for text in (train, test)
    )
    shape = f"layers={asked.layers} d={asked.dim} f={asked.hidden} h={asked.heads} v={asked.vocabulary}"
    print(f"{shape}, float32, {asked.threads} threads; tatoeba_plain")
    print(f"training: up to {asked.tokens} tokens a batch, {asked.rounds} rounds")
    rows = training_rows(ours, theirs, train_pairs, asked)
    step = trainer(ours, our_logits, our_loss, TokenBatches(train_pairs, max_tokens=asked.tokens // 2, seed=1))
    losses = [step() for _ in range(asked.learn)]
    print(f"decoding: loss {statistics.mean(losses[-20:]):.2f} after {asked.learn} steps, batches of {asked.batch}")
    copy_weights(ours, theirs)
    rows += decoding_rows(ours, theirs, test_pairs, asked)

    print(f"\n{'':55} {'':>24} {'speed':>10} {'ratio':>7}")
    for row in rows:
        print(f"{row['mode']:55} {row['candidate']:>24} {row['speed']:>10} {row['ratio']:>7}  {row['unit']}")
    if not asked.no_save:
        print(f"added to {append('translation_cpu.csv', [{'case': shape, **row} for row in rows])}")


def has_amx() -> bool:
    """Whether this processor multiplies bfloat16 in hardware; without it bfloat16 is slower than float32."""
    facts = Path("/proc/cpuinfo")
    return facts.exists() and "amx_bf16" in facts.read_text()


if __name__ == "__main__":
    main()

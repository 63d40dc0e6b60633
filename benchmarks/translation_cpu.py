"""How fast does the Transformer train and translate on a CPU, beside Marian of Hugging Face with the same weights?

pip install transformers     (a peer, no dependency of regard: best in an environment of its own)
python benchmarks/translation_cpu.py
python benchmarks/translation_cpu.py --layers 6 --dim 512 --hidden 2048 --sentences 64 --batch 32
"""

import argparse
import itertools
import statistics
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import append, ratio, side_by_side
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.position import sinusoid
from regard.data import BOS, EOS, PAD, Batch, Pair, SubwordCodec, TokenBatches, collate, tatoeba_plain
from regard.decode import beam_search
from regard.models import Transformer, TransformerConfig
from regard.nn import token_loss

SUBWORDS, UNUSED = 7000, -1  # the last entry of the vocabulary is no subword: as EOS it never comes
MORE_STEPS = 10  # a translation may be so much longer than the longest source of its batch
SMOOTHING, BEAMS = 0.1, 5

Rows = list[dict[str, object]]
Search = Callable[..., list[list[int]]]


def marian_of(sizes: argparse.Namespace) -> nn.Module:
    """The same Transformer there: norms after the layers, embeddings tied and scaled, dropout in the same places."""
    try:
        import transformers
    except ImportError as error:
        raise SystemExit(f"no transformers here ({error}): pip install transformers") from error
    transformers.logging.set_verbosity_error()
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", sizes.layers), ("ffn_dim", sizes.hidden), ("attention_heads", sizes.heads))
    }
    config = transformers.MarianConfig(
        vocab_size=sizes.vocabulary,
        d_model=sizes.dim,
        **sides,
        activation_function="relu",
        dropout=0.1,
        activation_dropout=0.1,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    return transformers.MarianMTModel(config)


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: Any) -> None:
    theirs.model.shared.weight.copy_(ours.source.weight)
    for side in (theirs.model.encoder, theirs.model.decoder):
        table = side.embed_positions.weight
        table.copy_(sinusoid(torch.arange(float(len(table))), table.shape[1]))

    def attention(source: MultiHead, target: Any) -> list[tuple[Any, Any]]:
        from_ = (source.to_query, source.to_keys, source.to_values, source.to_output)
        return list(zip(from_, (target.q_proj, target.k_proj, target.v_proj, target.out_proj), strict=True))

    layers: Any = [
        *zip(ours.encoder, theirs.model.encoder.layers, strict=True),
        *zip(ours.decoder, theirs.model.decoder.layers, strict=True),
    ]
    for source, target in layers:
        pairs = [*attention(source.inner, target.self_attn), (source.around_inner.norm, target.self_attn_layer_norm)]
        if hasattr(source, "cross"):
            pairs += attention(source.cross, target.encoder_attn)
            pairs.append((source.around_cross.norm, target.encoder_attn_layer_norm))
        pairs += [(source.feed.widen, target.fc1), (source.feed.narrow, target.fc2)]
        pairs.append((source.around_feed.norm, target.final_layer_norm))
        for here, there in pairs:
            there.load_state_dict(here.state_dict())


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


def our_logits(model: nn.Module, batch: Batch) -> Tensor:
    return model(batch.source, batch.source_lengths, batch.inputs).logits


def their_logits(model: nn.Module, batch: Batch) -> Tensor:
    mask = (batch.source != PAD).long()
    return model(batch.source, attention_mask=mask, decoder_input_ids=batch.inputs, use_cache=False).logits


def our_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return token_loss(logits, targets, smoothing=SMOOTHING, ignore=PAD)


def their_loss(logits: Tensor, targets: Tensor) -> Tensor:
    flat = logits.flatten(0, 1), targets.flatten()
    return F.cross_entropy(*flat, label_smoothing=SMOOTHING, ignore_index=PAD, reduction="sum")


def trainer(
    model: nn.Module,
    logits: Callable[[nn.Module, Batch], Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    batches: Iterator[Batch],
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
        "Marian": trainer(theirs, their_logits, their_loss, iter(batches)),
    }
    if asked.bf16:
        steps["regard, bf16"] = trainer(ours, our_logits, our_loss, iter(batches), bf16=True)
        steps["Marian, bf16"] = trainer(theirs, their_logits, their_loss, iter(batches), bf16=True)
    seconds = side_by_side(steps, rounds=asked.rounds)
    tokens = [batch.num_tokens for batch in batches[2:]]
    return table("training", "target tokens/s", seconds, tokens)


@torch.no_grad()
def same_result(ours: Transformer, theirs: nn.Module, batch: Batch) -> None:
    """No figure without a right result: logits, and the loss."""
    ours.eval()
    theirs.eval()
    here, there = our_logits(ours, batch), their_logits(theirs, batch)
    real = batch.targets != PAD
    assert torch.allclose(here[real], there[real], atol=1e-4, rtol=1e-4), "the two models are not the same"
    assert torch.allclose(our_loss(here, batch.targets), their_loss(there, batch.targets)), "the losses differ"


# ── decoding ────────────────────────────────────────────────────────────────────────────────────────────────────────


def our_search(model: Transformer, batch: Batch, *, steps: int, eos: int = EOS) -> list[list[int]]:
    with torch.inference_mode():
        state = model.init_state(model.encode(batch.source, batch.source_lengths))
        found = beam_search(model, state, batch=len(batch), bos=BOS, eos=eos, beams=BEAMS, max_steps=steps)
    return [best[0].tokens for best in found]


def their_search(
    model: Any, batch: Batch, *, steps: int, eos: int = EOS, early_stopping: bool = False
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
        for name, candidate in candidates.items():  # rounding may turn a near tie
            same = sum(here == there for here, there in zip(candidate(), expected, strict=True)) / len(expected)
            assert same >= 0.95, f"{name}: only {same:.0%} of the translations are those of Marian"
            print(f"  {case}, {name}: {same:.1%} of the translations are those of Marian")
        length = statistics.mean(map(len, expected))
        seconds = side_by_side(candidates, rounds=asked.decoding_rounds)
        counts = [len(chosen)] * asked.decoding_rounds
        rows += table(f"beam {BEAMS}, {case}, mean length {length:.1f}", "sentences/s", seconds, counts)
    return rows


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
    theirs = marian_of(asked)
    sizes = {"dim": asked.dim, "hidden_dim": asked.hidden, "num_heads": asked.heads, "dropout": 0.1}
    layers = {"encoder_layers": asked.layers, "decoder_layers": asked.layers}
    ours = Transformer(TransformerConfig(asked.vocabulary, asked.vocabulary, **sizes, **layers))
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
        print(f"added to {append('translation_cpu.csv', [{'case': shape} | row for row in rows])}")


def has_amx() -> bool:
    """Whether this processor multiplies bfloat16 in hardware; without it bfloat16 is slower than float32."""
    facts = Path("/proc/cpuinfo")
    return facts.exists() and "amx_bf16" in facts.read_text()


if __name__ == "__main__":
    main()

"""Translation on one GPU: training tokens a second beside Hugging Face Marian, and seconds to a given BLEU.

    python benchmarks/translation_gpu.py            # both; needs CUDA, Multi30k, and transformers for the first part
    python benchmarks/translation_gpu.py quality

Speed: the same sizes (3 + 3 layers, width 256, feed-forward 512, 8 heads, 8,000 joint sub-words), bfloat16, real target
tokens a second, in turns. Marian runs as it comes, eager under autocast with fused Adam, 4,096 padded tokens an update;
ours runs captured, in batches of several sizes.

Quality: seconds of training (data, capture and evaluation not counted, but printed) until greedy, tokenised,
lower-cased BLEU on test2016 passes the notebooks' numbers: 36.5 for the Transformer, 28.3 for RNNsearch.
"""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.recipes import RECIPES, Recipe, build_model, change
from regard.tasks import Translation
from regard.train import Trainer, World

sys.path.insert(0, str(Path(__file__).parent))
from timing import append

CUDA = torch.device("cuda")
FOREVER = ["train.steps=1000000", "train.log_every=1000000", "train.evaluate_every=1000000", "train.save_every=1000000"]
SHORT = ["train.warmup=120", "train.schedule=linear", "train.ema=0.99"]
QUALITY = {
    "transformer/multi30k_de_en": (36.5, ["train.seconds=9.5", "train.lr=3e-3", "model.dropout=0.1", *SHORT]),
    "bahdanau/multi30k_de_en": (28.3, ["train.seconds=6", "train.lr=2e-3", "model.dropout=0.3", *SHORT]),
}


def trainer(recipe: Recipe, task: Translation) -> Trainer:
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    return Trainer(build_model(recipe, task), task, recipe.train, folder, World(device=CUDA), False, None)


class Ours:
    """The captured step of `regard train`, over one epoch at a time."""

    def __init__(self, size: int) -> None:
        recipe = change(RECIPES["transformer/multi30k_de_en"](), [*FOREVER, f"task.batch_size={size}"])
        self.run = trainer(recipe, Translation(recipe.task))
        self.epoch()  # captures every shape

    def epoch(self) -> float:
        """Real target tokens a second."""
        batches, tokens = self.run.batches, 0
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(batches.epoch_length()):
            batch = next(batches)
            tokens += batch.count
            self.run.step += 1
            self.run.stepper.update([batch], batch.count, 1e-4, self.run.step)
        torch.cuda.synchronize()
        return tokens / (time.perf_counter() - start)


class Marian:
    """The same sizes in Hugging Face's model, trained as its users do."""

    def __init__(self) -> None:
        try:
            from transformers import MarianConfig, MarianMTModel
        except ImportError:
            raise SystemExit("this part compares with Hugging Face: pip install transformers") from None
        recipe = RECIPES["transformer/multi30k_de_en"]()
        task = Translation(replace(recipe.task, batch_size=None, batch_tokens=4096, fit=None))
        self.batches = task.batches(seed=0)
        width = recipe.model.dim
        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=task.vocabularies[1], d_model=width, encoder_layers=3, decoder_layers=3, encoder_ffn_dim=512,
                decoder_ffn_dim=512, encoder_attention_heads=8, decoder_attention_heads=8, max_position_embeddings=256,
                pad_token_id=0, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None, dropout=0.2,
            )
        ).to(CUDA)  # fmt: skip
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.steps(20)

    def steps(self, number: int) -> float:
        """Real target tokens a second."""
        tokens = 0
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(number):
            batch = next(self.batches)
            tokens += batch.count
            here = batch.to("cuda")
            places = torch.arange(here.source.shape[1], device=CUDA)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                out = self.model(
                    input_ids=here.source,
                    attention_mask=(places < here.source_lengths.unsqueeze(1)).long(),
                    decoder_input_ids=here.inputs,
                    use_cache=False,
                )
                loss = torch.nn.functional.cross_entropy(
                    out.logits.flatten(0, 1).float(), here.targets.flatten(), ignore_index=0, label_smoothing=0.1
                )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return tokens / (time.perf_counter() - start)


def speed(sizes: list[int], rounds: int = 3) -> None:
    """In turns: an epoch of ours at each size, 30 updates of Marian's."""
    peer = Marian()
    ours = {size: Ours(size) for size in sizes}
    times: dict[Any, list[float]] = {size: [] for size in [*sizes, "marian"]}
    for _ in range(rounds):
        times["marian"].append(peer.steps(30))
        for size, runner in ours.items():
            times[size].append(runner.epoch())
    base = statistics.median(times["marian"])
    parameters = sum(parameter.numel() for parameter in peer.model.parameters())
    print(f"Marian, {parameters / 1e6:.1f} M parameters, eager:  {base:10,.0f} target tokens/s")
    for size in sizes:
        ratio = statistics.median(a / b for a, b in zip(times[size], times["marian"], strict=True))
        speed_here = statistics.median(times[size])
        print(f"regard, batches of {size:5}, captured:  {speed_here:10,.0f} target tokens/s  {ratio:6.1f} ×")
        row = {"batch": size, "tokens_per_second": speed_here, "marian": base, "ratio": ratio}
        append("translation_gpu.csv", [row])


def quality() -> None:
    """Train for a little less than the time allowed, and look at test2016."""
    for name, (wanted, settings) in QUALITY.items():
        start = time.perf_counter()
        recipe = change(RECIPES[name](), [*FOREVER, *settings])
        task = Translation(recipe.task)
        run = trainer(recipe, task)
        ready = time.perf_counter() - start
        model = run.run()
        score = task.evaluate(model, "test2016").figures["tokenized_bleu"]
        last = run.clock.seconds - run.stepper.preparing
        print(f"{name}: greedy BLEU {score:.2f} (wanted {wanted}) after {last:.1f} s of training, {run.step} steps; "
              f"besides: data {ready:.1f} s, capture {run.stepper.preparing:.1f} s")  # fmt: skip
        row = {"recipe": name, "bleu": score, "wanted": wanted, "seconds": last, "steps": run.step}
        append("time_to_quality.csv", [{**row, "capture": run.stepper.preparing, "data": ready}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["speed", "quality"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 256, 512, 1024])
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    if asked.part != "quality":
        speed(asked.sizes)
    if asked.part != "speed":
        quality()


if __name__ == "__main__":
    main()

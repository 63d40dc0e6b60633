"""The plain search of a model, as benchmarks/search_gpu.py times it: by itself, or in an earlier version of the code.

    PYTHONPATH=EARLIER/src python benchmarks/plain_search.py rnnsearch 1000 8000

serves one who sends a line of JSON for each search, {"beams": 5, "max_tokens": 4096, "half": true}, and answers with
the number of tokens that were found, once all is on the host. So it uses only what the package has had from its first
translators on.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import regard
from regard.data import BOS, PAD, Pair, evaluation_batches
from regard.decode import Hypothesis
from regard.models import MODELS
from regard.recipes import RECIPES
from regard.tasks.search import Search, find_best

WORDS, STEPS = 8000, 10
FORBIDDEN = (PAD, BOS)
RECIPE_OF = {
    "transformer": "transformer/multi30k_de_en", "rnnsearch": "bahdanau/multi30k_de_en", "gnmt": "gnmt/multi30k_de_en",
    "convs2s": "convs2s/multi30k_de_en", "captions": "show_attend_tell/flickr8k_soft",
}  # fmt: skip
Found = list[list[Hypothesis]]


class PlainSentences:
    """Random sentences, how they are searched, and when each of them ends."""

    def __init__(self, count: int, device: torch.device, *, ragged: bool = False, words: int = WORDS) -> None:
        chance = torch.Generator().manual_seed(0)
        lengths = (14 + 6 * torch.randn(count, generator=chance)).round().clamp(4, 40).int().tolist()
        self.pairs: list[Pair] = [(torch.randint(4, words, (n,), generator=chance).tolist(), []) for n in lengths]
        self.last = torch.full((count,), STEPS)
        if ragged:
            self.last = torch.tensor([min(40, max(5, n + int(torch.randint(-3, 4, (), generator=chance))))
                                      for n in lengths])  # fmt: skip
        self.min_steps, self.device = 0 if ragged else STEPS, device

    @property
    def tokens(self) -> int:
        """How many there are to find."""
        return int(self.last.sum())

    def plain(self, model: Any, how: Search, max_tokens: int) -> Found:
        """The plain search, batch by batch; weights are brought to the host, all of a batch together."""
        found: Found = [[] for _ in self.pairs]
        for batch in evaluation_batches(self.pairs, max_tokens=max_tokens):
            source, lengths = batch.source.to(self.device), batch.source_lengths.to(self.device)
            state, last = model.init_state(model.encode(source, lengths)), self.last[batch.indices].to(self.device)
            options = {"batch": len(batch), "bos": 1, "eos": 2, "max_steps": last, "forbidden": FORBIDDEN}
            here = find_best(model, state, how, min_steps=self.min_steps, **options)
            looks = [one.weights for each in here for one in each if one.weights is not None]
            if looks:
                torch.cat([look.flatten() for look in looks]).cpu()
            for number, each in zip(batch.indices, here, strict=True):
                found[number] = each
        return found


def build(part: str, device: torch.device, *, words: int = WORDS) -> Any:
    """The model of the recipe, with random weights."""
    torch.manual_seed(0)
    if part == "luong":
        kind = MODELS["luong"]
        config = kind.config(words, words, embed_dim=256, hidden_dim=512, layers=2, published_start=False)
        return kind.model(config).to(device).eval()
    recipe = RECIPES[RECIPE_OF[part]]()
    kind = next(paper for paper in MODELS.values() if paper.config is type(recipe.model))
    if part == "captions":
        config = replace(recipe.model, vocabulary=words, feature_dim=512, encoder=None, encoder_frozen=0)
    else:
        config = replace(recipe.model, source_vocabulary=words, target_vocabulary=words)
    return kind.model(config).to(device).eval()


def in_half(model: Any) -> Any:
    """A copy in bfloat16, with the weights of recurrent layers side by side, as they are in a new model."""
    half = copy.deepcopy(model).bfloat16()
    for module in half.modules():
        if isinstance(module, torch.nn.RNNBase):
            module.flatten_parameters()
    return half


class Earlier(AbstractContextManager["Earlier"]):
    """The plain search of an earlier version, whose tree lies in a folder, in a process of its own."""

    def __init__(self, tree: Path, part: str, sentences: int, *, ragged: bool, words: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src")}
        command = [sys.executable, __file__, part, str(sentences), str(words), *(["ragged"] if ragged else [])]
        self._child = subprocess.Popen(
            command, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        source = Path(self._answer())
        if not source.is_relative_to(tree.resolve() / "src"):
            self.__exit__()
            raise SystemExit(f"--earlier {tree}: it has no src/regard, so the package came from {source.parent}")

    def find(self, how: Search, max_tokens: int, *, half: bool) -> int:
        """Searches all sentences once, and says how many tokens it found."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"beams": how.beams, "max_tokens": max_tokens, "half": half}) + "\n")
        return int(self._answer())

    def _answer(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"the earlier version stopped with {self._child.wait()}; its message stands above")
        return line.strip()

    def __exit__(self, *_: object) -> None:
        self._child.communicate()  # nobody asks any more


@torch.no_grad()
def serve(part: str, sentences: PlainSentences, words: int) -> None:
    """Searches as often as it is asked to, until nobody asks any more; first it says where the package lies."""
    model = build(part, sentences.device, words=words)
    models = {False: model, True: in_half(model)}
    print(Path(regard.__file__).resolve(), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        how = Search(beams=asked["beams"], length_penalty=0.0)
        found = sentences.plain(models[asked["half"]], how, asked["max_tokens"])
        print(sum(len(each[0].tokens) for each in found), flush=True)


def main() -> None:
    """What another process starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", help="the model")
    parser.add_argument("sentences", type=int, help="how many are translated")
    parser.add_argument("words", type=int, help="of the vocabulary")
    parser.add_argument("lengths", nargs="?", choices=["ragged"], help="each sentence ends at a length of its own")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ragged = asked.lengths is not None
    serve(asked.part, PlainSentences(asked.sentences, device, ragged=ragged, words=asked.words), asked.words)


if __name__ == "__main__":
    main()

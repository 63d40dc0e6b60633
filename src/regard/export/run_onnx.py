"""Use an exported folder with numpy and onnxruntime: greedy translation, captions, and classes of texts; no torch.

An export copies this file into its folder as run.py, where `python run.py "I lost my keys."` works without regard.
Read it as an example: the search is `greedy` below, in forty lines, and model.json names every input and output.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from regard.data.tokenizing import detokenize, english_tokens, normalize_text, tokenize

PAD, BOS, EOS, UNK = range(4)
Array = np.ndarray


class Written(NamedTuple):
    """A text that a model wrote: its tokens, and the weights [tokens, source tokens or places] of attention."""

    text: str
    tokens: list[str]
    ids: list[int]
    source_tokens: list[str]
    weights: Array | None  # None for a model without attention
    finished: bool  # False where the limit of steps was reached


class Classified(NamedTuple):
    """The class of a text or of a pair, the probability of each class, and the weights by name."""

    text: str
    probabilities: Array
    weights: dict[str, Array]


class Units:
    """Words or sub-words of one side: text to ids and back. `spec` is the entry of the side in model.json."""

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self.spec, path = spec, folder / spec["file"]
        if spec["kind"] == "subwords":
            import sentencepiece

            self.pieces = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
        else:
            self.words = ["<pad>", "<bos>", "<eos>", "<unk>", *json.loads(path.read_text(encoding="utf-8"))]
            self.ids = {word: number for number, word in enumerate(self.words) if number > UNK}

    def tokens(self, text: str) -> list[str]:
        """The words or sub-words of a text."""
        if self.spec["kind"] == "subwords":
            cased = text.lower() if self.spec["lower"] else text
            return list(self.pieces.encode(normalize_text(cased), out_type=str))
        cut = english_tokens if self.spec["kind"] == "english words" else tokenize
        return cut(text, lower=self.spec["lower"])

    def encode(self, text: str) -> list[int]:
        """The number of each token, without <bos> and <eos>."""
        if self.spec["kind"] == "subwords":
            cased = text.lower() if self.spec["lower"] else text
            return list(self.pieces.encode(normalize_text(cased), out_type=int))
        return [self.ids.get(word, UNK) for word in self.tokens(text)]

    def decode(self, ids: Sequence[int]) -> tuple[str, list[str]]:
        """The text of ids, and the token of each of them; the last ids are not <eos>."""
        if self.spec["kind"] == "subwords":
            return str(self.pieces.decode(list(ids))), [self.pieces.id_to_piece(number) for number in ids]
        words = [self.words[number] for number in ids]
        return " ".join(words) if self.spec.get("plain") else detokenize(words), words


class Exported:
    """The files of an exported folder; `threads` is how many onnxruntime may use, 0 for as many as it likes."""

    def __init__(self, folder: str | Path, *, threads: int = 0) -> None:
        self.folder = Path(folder)
        self.spec = json.loads((self.folder / "model.json").read_text(encoding="utf-8"))
        self.threads = threads
        self.graphs = {name: self._session(graph["file"]) for name, graph in self.spec["graphs"].items()}
        self.units = {side: Units(self.folder, units) for side, units in self.spec["units"].items()}

    def _session(self, file: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(self.folder / file), options, providers=["CPUExecutionProvider"])

    def call(self, graph: str, inputs: dict[str, Array]) -> dict[str, Array]:
        """The outputs of a graph by name; inputs that the graph does not have are left out."""
        known = {each["name"] for each in self.spec["graphs"][graph]["inputs"]}
        names = [each["name"] for each in self.spec["graphs"][graph]["outputs"]]
        outputs = self.graphs[graph].run(names, {name: value for name, value in inputs.items() if name in known})
        return dict(zip(names, outputs, strict=True))


def greedy(model: Exported, inputs: dict[str, Array], limits: Array) -> list[tuple[list[int], Array | None, bool]]:
    """Always the best next token, for all rows at once: ids without <eos>, weights [tokens + <eos>, source], finished.

    `limits` is the largest number of steps of each row. The encoder makes the state; the decoder takes it with the last
    tokens and gives logits and the next state. A row that has ended leaves the batch.
    """
    search, carried = model.spec["search"], model.spec["graphs"]["decoder"]["carried"]
    state = model.call("encoder", inputs)
    per_row = {each["name"] for each in model.spec["graphs"]["encoder"]["outputs"] if each["axes"][:1] == ["batch"]}
    rows = np.arange(len(limits))  # the rows that go on
    tokens = np.full(len(limits), search["bos"], np.int64)
    ids: list[list[int]] = [[] for _ in rows]
    looks: list[list[Array]] = [[] for _ in rows]
    finished, step = np.zeros(len(limits), bool), 0
    while len(rows):
        step += 1
        outputs = model.call("decoder", {"tokens": tokens, **state})
        logits = outputs["logits"]
        logits[:, search["forbidden"]] = -np.inf
        if step < search["min_steps"]:
            logits[:, search["eos"]] = -np.inf
        tokens = logits.argmax(-1)
        for number, row in enumerate(rows):
            if "weights" in outputs:
                looks[row].append(outputs["weights"][number])
            if tokens[number] == search["eos"]:
                finished[row] = True
            else:
                ids[row].append(int(tokens[number]))
        state.update({name: outputs[after] for after, name in carried.items()})
        stay = (tokens != search["eos"]) & (step < limits[rows])
        if not stay.all():
            rows, tokens = rows[stay], tokens[stay]
            state = {name: value[stay] if name in per_row else value for name, value in state.items()}
    return [(ids[row], np.stack(looks[row]) if looks[row] else None, bool(finished[row])) for row in range(len(limits))]


class OnnxTranslator(Exported):
    """A translator: `OnnxTranslator(folder).translate(["I lost my keys."])[0].text`."""

    def translate(self, texts: Iterable[str], *, batch_size: int = 64) -> list[Written]:
        """The greedy translation of each text; texts of like length go together. A blank text stays blank."""
        source, target, search = self.units["source"], self.units["target"], self.spec["search"]
        texts = list(texts)
        encoded = [source.encode(text) for text in texts]
        written = [Written("", [], [], [], None, True) for _ in texts]
        order = sorted((number for number, ids in enumerate(encoded) if ids), key=lambda number: len(encoded[number]))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            padded, lengths = pad([[*encoded[number], EOS] for number in chosen])
            limits = (search["max_ratio"] * lengths).astype(np.int64) + search["max_more"]
            found = greedy(self, {"source": padded, "lengths": lengths}, limits)
            for number, length, (ids, weights, finished) in zip(chosen, lengths, found, strict=True):
                text, tokens = target.decode(ids)
                seen = None if weights is None else weights[: len(tokens), :length]
                written[number] = Written(
                    text, tokens, ids, [*source.tokens(texts[number]), "<eos>"], seen, finished
                )  # fmt: skip
        return written


class OnnxCaptioner(Exported):
    """A captioner: features of pictures in, captions out. The features come from the encoder of the run."""

    def caption(self, features: Array) -> list[Written]:
        """The greedy caption of each picture, from its features [pictures, places, numbers]."""
        limits = np.full(len(features), self.spec["search"]["max_steps"], np.int64)
        captions = []
        for ids, weights, finished in greedy(self, {"features": np.asarray(features, np.float32)}, limits):
            text, tokens = self.units["target"].decode(ids)
            seen = None if weights is None else weights[: len(tokens)]
            captions.append(Written(text, tokens, ids, [], seen, finished))
        return captions


class OnnxClassifier(Exported):
    """A classifier of texts, or of pairs of texts."""

    def classify(self, examples: Iterable[str | Sequence[str]]) -> list[Classified]:
        """The class of each text; a pair is a tuple of two texts."""
        source, sides, classes = self.units["source"], self.spec["texts"], self.spec["classes"]
        results = []
        for example in examples:
            texts = [example] if isinstance(example, str) else list(example)
            encoded = [shortened(source.encode(text.strip()), self.spec["shorten"]) for text in texts]
            if len(texts) != sides or not all(encoded):
                raise ValueError(f"expected {sides} texts with words, got {texts!r}")
            padded, lengths = pad(encoded)
            outputs = self.classify_ids(padded[None], lengths[None])
            exponents = np.exp(outputs["logits"][0] - outputs["logits"][0].max())
            probabilities = exponents / exponents.sum()
            weights = {name: value[0] for name, value in outputs.items() if name != "logits"}
            results.append(Classified(classes[int(probabilities.argmax())], probabilities, weights))
        return results

    def classify_ids(self, texts: Array, lengths: Array) -> dict[str, Array]:
        """Logits [examples, classes] and weights, for ids [examples, texts, words] and lengths [examples, texts]."""
        if "first" not in self.graphs:
            return self.call("classifier", {"texts": texts, "lengths": lengths})
        totals: dict[str, Array] = {}
        seen: dict[str, Array] = {}
        start: dict[str, Array] = {}
        for side, name in enumerate(("first", "second")[: texts.shape[1]]):
            state, outputs = self.read(name, texts[:, side], lengths[:, side], start)
            totals[f"total.{side}"] = state["total"]
            seen |= {f"{name}.{key}": value for key, value in outputs.items() if key.startswith(("weights", "inter"))}
            if "tapes" in self.graphs and side == 0:
                start = self.call("tapes", {"lengths": lengths[:, 0], **outputs})
        return self.call("classifier", {"lengths": lengths, **totals}) | seen

    def read(
        self, graph: str, words: Array, lengths: Array, start: dict[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Read texts [texts, words] word by word: the last state, and the outputs of all words [texts, words, …].

        A state begins with zeros, but for what is in `start`. Weights over the tape, whose newest cell is the last one,
        become weights over the words: row t has the words before it.
        """
        spec, state = self.spec["graphs"][graph], dict(start)
        for each in spec["inputs"][2:]:
            if each["name"] not in state:
                shape = [len(words) if axis == "batch" else axis for axis in each["axes"]]
                state[each["name"]] = np.zeros(shape, each["type"])
        steps: list[dict[str, Array]] = []
        for t in range(words.shape[1]):
            active = (t < lengths).astype(np.int64)
            outputs = self.call(graph, {"words": words[:, t], "active": active, **state})
            for name in [name for name in outputs if name.startswith("next.")]:
                state[name.removeprefix("next.")] = outputs.pop(name)
            for name in [name for name in outputs if name.startswith("weights")]:
                tape = outputs[name].shape[1]
                before = outputs[name][:, max(0, tape - t) :]  # of the last t words
                outputs[name] = np.pad(before, ((0, 0), (t - before.shape[1], words.shape[1] - t)))
            steps.append(outputs)
        return state, {name: np.stack([each[name] for each in steps], 1) for name in steps[0]}


def pad(sentences: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Ids [sentences, words] with <pad> at the end, and how many are real."""
    lengths = np.array([len(each) for each in sentences], np.int64)
    padded = np.full((len(sentences), lengths.max()), PAD, np.int64)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded, lengths


def shortened(ids: Sequence[int], how: dict[str, Any]) -> list[int]:
    """At most `how["limit"]` ids: those of the start, of the end, or half of both."""
    limit = how["limit"]
    if limit is None or len(ids) <= limit:
        return list(ids)
    first = {"start": limit, "end": 0, "ends": limit // 2}[how["kept"]]
    return [*ids[:first], *ids[len(ids) - (limit - first) :]]


def load(folder: str | Path, *, threads: int = 0) -> Any:
    """The translator, captioner or classifier of an exported folder."""
    kinds = {"translation": OnnxTranslator, "captioning": OnnxCaptioner, "text_classification": OnnxClassifier}
    task = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))["task"]
    return kinds[task](folder, threads=threads)


def main() -> None:
    """Translate or classify the texts of the command line, or the lines of standard input."""
    model = load(Path(__file__).parent)
    lines = sys.argv[1:] or [line.rstrip("\n") for line in sys.stdin]
    results = model.translate(lines) if isinstance(model, OnnxTranslator) else model.classify(lines)
    sys.stdout.writelines(f"{result.text}\n" for result in results)


if __name__ == "__main__":
    main()

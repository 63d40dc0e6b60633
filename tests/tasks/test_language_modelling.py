"""Language modelling: each token once, the same figures by hand, streams that resume to the last bit."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard import api
from regard.base import ConfigError, RegardError
from regard.data import BOS, EOS, PAD
from regard.datasets.agreement import agreement
from regard.models import (
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
    LSTMNConfig,
    LSTMNLanguageModel,
    MemN2NLanguageModel,
    MemN2NLanguageModelConfig,
    TransformerXL,
    TransformerXLConfig,
)
from regard.recipes import Recipe, change
from regard.tasks import Generation, LanguageModelling, LanguageModellingConfig
from regard.tasks.language_modelling import position_points
from regard.train import Train

SPLITS = agreement((60, 12, 12))
SHORT = "".join(f"{line}\n" for line in SPLITS["test"].split("\n")[:3])


def made(context: Any = "sentence", **settings: Any) -> LanguageModelling:
    return LanguageModelling(LanguageModellingConfig(context=context, **settings), splits=SPLITS)


def model_for(task: LanguageModelling, kind: str = "lstmn") -> torch.nn.Module:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"embed_dim": 8, "hidden_dim": 8}
    if kind == "lstm":
        return LSTMLanguageModel(task.complete(LSTMLanguageModelConfig(**sizes)))
    if kind.startswith("transformer_xl"):
        cutoffs = (10, 25) if kind.endswith("adaptive") else ()
        small = {"dim": 8, "num_heads": 2, "hidden_dim": 8, "layers": 2, "memory": 6, "init_std": 0.4}
        return TransformerXL(task.complete(TransformerXLConfig(dropout=0.0, cutoffs=cutoffs, **small)))
    return LSTMNLanguageModel(task.complete(LSTMNConfig(align_dim=8, tape=6, **sizes)))


def nats_of_sentences(model: torch.nn.Module, task: LanguageModelling, split: str) -> list[float]:
    """−log p of every sentence, each alone."""
    total = []
    for sentence in task.units.sentences(task.splits[split]):
        logits = model(torch.tensor([[BOS, *sentence]]), None)[0][0]
        total.append(F.cross_entropy(logits, torch.tensor([*sentence, EOS]), reduction="sum").item())
    return total


@torch.no_grad()
def test_figures_of_sentences_by_hand() -> None:
    task = made()
    model = model_for(task).eval()
    nats = nats_of_sentences(model, task, "test")
    text = SPLITS["test"]
    count = len(text.split()) + text.count("\n")
    evaluation = task.evaluate(model, "test", full=True)
    assert evaluation.details["count"] == count
    assert evaluation.figures["perplexity"] == pytest.approx(math.exp(sum(nats) / count), rel=1e-5)
    assert evaluation.figures["bits_per_character"] == pytest.approx(sum(nats) / math.log(2) / len(text), rel=1e-5)
    assert not evaluation.higher_is_better
    assert len(evaluation.details["outputs"]) == 12
    assert sum(point.size or 0 for point in position_points(evaluation.details)) == count
    first = evaluation.details["outputs"][0].split("\t")
    words = len(first[1].split()) + 1
    assert float(first[0]) == pytest.approx(math.exp(nats[0] / words), abs=0.01)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_sentences_do_not_depend_on_the_batch(rows: int) -> None:
    task = made()
    model = model_for(task)
    expected = task.evaluate(model, "valid").figures
    assert task.evaluate(model, "valid", Generation(rows=rows)).figures == pytest.approx(expected, rel=1e-6)
    assert model.training


@torch.no_grad()
@pytest.mark.parametrize("kind", ["lstmn", "lstm"])
def test_figures_of_a_stream_by_hand(kind: str) -> None:
    """One stream is the whole text in one pass."""
    task = made("stream", length=7)
    model = model_for(task, kind).eval()
    tokens = torch.from_numpy(task.units.stream(SPLITS["test"]))
    logits = model(torch.cat([torch.tensor([EOS]), tokens[:-1]]).unsqueeze(0), None)[0][0]
    expected = F.cross_entropy(logits, tokens).item()
    assert task.evaluate(model, "test", Generation(rows=1)).figures["loss"] == pytest.approx(expected, rel=1e-5)
    several = task.evaluate(model, "test", Generation(rows=5), full=True)
    assert several.details["count"] == len(tokens)
    assert several.figures["loss"] != pytest.approx(expected, rel=1e-5)  # four streams begin without what was before
    assert "stream of 5" in several.details["signatures"]["perplexity"]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["transformer_xl", "transformer_xl, adaptive"])
def test_a_stream_may_be_judged_with_another_memory(kind: str) -> None:
    task = LanguageModelling(LanguageModellingConfig(context="stream", length=7), splits=SPLITS | {"test": SHORT})
    model = model_for(task, kind).eval()
    tokens = torch.from_numpy(task.units.stream(SHORT))
    inputs = torch.cat([torch.tensor([EOS]), tokens[:-1]])

    def losses(**settings: int) -> np.ndarray[Any, Any]:
        return np.concatenate(task.token_nats(model, SHORT, Generation(rows=1, **settings)))

    whole = F.cross_entropy(model(inputs.unsqueeze(0), None)[0][0, :], tokens, reduction="none").numpy()
    np.testing.assert_allclose(losses(memory=len(tokens)), whole, rtol=1e-4)
    np.testing.assert_allclose(losses(memory=len(tokens), length=11), whole, rtol=1e-4)
    assert not np.allclose(losses(), whole, rtol=1e-4)
    count = len(tokens) // 3 * 3
    logits = model(inputs[:count].view(-1, 3), None)[0][:]
    alone = F.cross_entropy(logits.flatten(0, 1), tokens[:count], reduction="none").numpy()
    np.testing.assert_allclose(losses(memory=0, length=3)[:count], alone, rtol=1e-4)
    signature = task.evaluate(model, "test", Generation(rows=1, memory=0, length=30), full=True).details["signatures"]
    assert "stream of 1, memory 0, length 30" in signature["perplexity"]


@pytest.mark.parametrize("setting", ["memory", "length"])
def test_what_only_streams_have(setting: str) -> None:
    task = made()
    with pytest.raises(ConfigError, match=f"{setting} is for streams"):
        task.evaluate(model_for(task), "test", Generation(**{setting: 3}))


def test_an_adaptive_softmax_has_the_loss_of_its_log_probabilities() -> None:
    for task in (made("stream", batch_size=3, length=5), made(batch_size=4)):
        model, batch = model_for(task, "transformer_xl, adaptive"), next(task.batches(seed=0))
        log_probs = model(batch.inputs, None)[0][:]
        expected = F.nll_loss(log_probs.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD, reduction="sum")
        assert task.loss(model, batch).total.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_a_part_of_the_text(context: str, tmp_path: Path) -> None:
    """The first lines, and all figures are of them alone."""
    task = made(context)
    model, lines = model_for(task), SPLITS["test"].split("\n")
    few = task.evaluate(model, "test", Generation(evaluated=40, rows=1), full=True)
    assert 20 < few.details["count"] <= 40
    count = next(n for n in range(12) if sum(len(line.split()) + 1 for line in lines[:n]) == few.details["count"])
    (tmp_path / "few.txt").write_text("".join(f"{line}\n" for line in lines[:count]))
    same = task.evaluate(model, str(tmp_path / "few.txt"), Generation(rows=1), full=True)
    for name in ("perplexity", "bits_per_character"):
        assert few.figures[name] == pytest.approx(same.figures[name], rel=1e-6)


def test_characters() -> None:
    task = made(units="characters")
    evaluation = task.evaluate(model_for(task), "test", full=True)
    assert evaluation.details["count"] == len(SPLITS["test"])
    assert evaluation.figures["bits_per_character"] == pytest.approx(math.log2(evaluation.figures["perplexity"]))


def test_batches_of_sentences() -> None:
    task = made(batch_size=16, fit=4)
    batches = task.batches(seed=1)
    shapes = {next(batches).inputs.shape for _ in range(12)}
    assert {rows for rows, _ in shapes} == {16}
    assert all(length % 4 == 0 for _, length in shapes)
    short = replace(task.config, max_length=5, fit=None)
    limited = LanguageModelling(short, splits=SPLITS).batches(seed=1)
    assert max(next(limited).targets.shape[1] for _ in range(5)) <= 6


def test_the_loss_is_a_sum_over_tokens() -> None:
    task = made(batch_size=8)
    model, batch = model_for(task), next(task.batches(seed=0))
    nats = nats_of_sentences(model, task, "train")
    assert task.loss(model, batch).total.item() == pytest.approx(sum(nats[row] for row in batch.indices), rel=1e-5)


def test_streams_carry_their_state() -> None:
    """The losses of two windows are those of one pass over both, and their gradient ends between them."""
    task = made("stream", batch_size=3, length=5)
    model = model_for(task)
    batches = task.batches(seed=0)
    first, second = next(batches), next(batches)
    total = task.loss(model, first).total + task.loss(model, second).total
    logits = model(torch.cat([first.inputs, second.inputs], 1), None)[0]
    targets = torch.cat([first.targets, second.targets], 1)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=PAD)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    ours = torch.autograd.grad(total, model.words.weight)[0]  # type: ignore[arg-type]
    whole = torch.autograd.grad(expected, model.words.weight)[0]  # type: ignore[arg-type]
    assert not torch.allclose(ours, whole, rtol=1e-4)
    while not (batch := next(batches)).begins.all():  # the next epoch
        task.loss(model, batch)
    again = task.loss(model, batch).total.item()
    assert again == pytest.approx(made("stream", batch_size=3, length=5).loss(model, batch).total.item(), rel=1e-6)


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_two_passes_shall_agree(context: str) -> None:
    """R-Drop: without dropout the loss is that of one pass; with it two streams go on, each from its own state."""
    made_twice, once = (made(context, batch_size=6, length=5, consistency=alpha) for alpha in (3.0, 0.0))
    model = model_for(made_twice, "transformer_xl").double()
    batches = made_twice.batches(seed=0)
    first, second = next(batches), next(batches)
    for batch in (first, second):
        total, figures = made_twice.loss(model, batch)
        torch.testing.assert_close(total, once.loss(model, batch).total)
        assert figures["divergence"].item() == pytest.approx(0, abs=1e-9)
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.5
    fresh, by_hand = made(context, batch_size=6, length=5, consistency=3.0), 0.0
    torch.manual_seed(3)
    ours = sum(fresh.loss(model, batch).total for batch in (first, second))
    torch.manual_seed(3)
    state = None if context == "sentence" else model.initial_state(12)  # type: ignore[operator]
    for batch in (first, second):
        logits, after = model(torch.cat([batch.inputs, batch.inputs]), state)
        state = None if context == "sentence" else after
        entropies = F.cross_entropy(logits.mT, batch.targets.repeat(2, 1), ignore_index=PAD, reduction="sum")
        p, q = logits.log_softmax(-1).chunk(2)
        apart = ((p.exp() - q.exp()) * (p - q)).sum(-1)[batch.targets != PAD].sum()
        assert apart > 0.1
        by_hand = by_hand + entropies / 2 + 3 / 4 * apart
    torch.testing.assert_close(ours, by_hand)


def test_two_passes_need_logits_of_all_tokens() -> None:
    task = made("stream", batch_size=3, length=5, consistency=1.0)
    with pytest.raises(ConfigError, match=r"task\.consistency: got an adaptive softmax"):
        task.loss(model_for(task, "transformer_xl_adaptive"), next(task.batches(seed=0)))


def test_a_run_may_begin_each_epoch_elsewhere() -> None:
    task = made("stream", batch_size=4, length=6, shifted=True)
    batches = task.batches(seed=1)
    firsts = []
    for _ in range(3):
        windows = [next(batches) for _ in range(batches.epoch_length())]
        firsts.append(windows[0].targets[0].tolist())
    assert len({*map(tuple, firsts)}) == 3


def test_windows_are_predicted_from_the_words_before_them() -> None:
    """The loss of an epoch of windows is that of the whole text, which is how it is judged."""
    task = made("windows", batch_size=7, length=2, before=4)
    torch.manual_seed(0)
    sizes = MemN2NLanguageModelConfig(memories=5, width=6, hops=2)
    model = MemN2NLanguageModel(task.complete(sizes)).double()
    nn.init.normal_(model.value_ages)
    batches = task.batches(seed=0)
    epoch = [next(batches) for _ in range(batches.epoch_length())]
    total = sum(task.loss(model, batch).total.item() for batch in epoch)
    tokens = sum(batch.count for batch in epoch)
    judged = task.evaluate(model, "train", Generation(rows=1)).figures
    assert total / tokens == pytest.approx(judged["loss"], rel=1e-6)
    with pytest.raises(ConfigError, match=r"task.context=windows with this model: got LSTMNLanguageModel"):
        task.loss(model_for(task), epoch[0])


def test_streams_are_for_one_process() -> None:
    with pytest.raises(ConfigError, match=r"task\.context=stream: got 2 processes; expected one"):
        made("stream").batches(seed=0, rank=0, world=2)


def xl_recipe(steps: int) -> Recipe:
    sizes = TransformerXLConfig(
        dim=8, num_heads=2, hidden_dim=8, layers=2, memory=7, dropout=0.2, locked=True, init_std=0.4
    )
    config = LanguageModellingConfig("agreement", context="stream", batch_size=40, length=6)
    train = Train(steps=steps, lr=1e-2, log_every=3, evaluate_every=6, save_every=3, ema=0.9)
    return Recipe("transformer_xl", sizes, config, train)


@pytest.mark.bare  # the hook would take as long again
def test_a_resumed_run_has_its_memory_again(few: None, tmp_path: Path) -> None:
    whole = api.train(xl_recipe(6), tmp_path / "whole")
    api.train(xl_recipe(3), tmp_path / "parts")
    resumed = api.train(xl_recipe(6), tmp_path / "parts", resume=True)
    for name, tensor in whole.module.state_dict().items():
        assert torch.equal(tensor, resumed.module.state_dict()[name]), name
    longer, usual = (whole.evaluate("valid", rows=1, **more).figures["loss"] for more in ({"memory": 20}, {}))
    assert abs(longer - usual) > 1e-4  # one stream, which is longer than either memory


def recipe(context: str, steps: int) -> Recipe:
    train = Train(steps=steps, lr=1e-2, log_every=3, evaluate_every=6, save_every=5)
    config = LanguageModellingConfig("agreement", context=context, batch_size=40, length=6)  # type: ignore[arg-type]
    return Recipe("lstmn", LSTMNConfig(embed_dim=8, hidden_dim=8, align_dim=8, tape=7, dropout=0.2), config, train)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanguageModelling, "splits", SPLITS)


@pytest.mark.parametrize("context", ["sentence", "stream"])  # windows have a position, and no state
def test_a_resumed_run_is_the_same_to_the_last_bit(few: None, tmp_path: Path, context: str) -> None:
    whole = api.train(recipe(context, 12), tmp_path / "whole")
    api.train(recipe(context, 5), tmp_path / "parts")
    resumed = api.train(recipe(context, 12), tmp_path / "parts", resume=True)
    for name, tensor in whole.module.state_dict().items():
        assert torch.equal(tensor, resumed.module.state_dict()[name]), name
    one, other = ((tmp_path / folder / "metrics.jsonl").read_text().splitlines()[-2:] for folder in ("whole", "parts"))
    assert [line.partition('"seconds"')[0].partition('"per_second"')[0] for line in one] == [
        line.partition('"seconds"')[0].partition('"per_second"')[0] for line in other
    ]
    assert (tmp_path / "parts/checkpoints/step_00000012/carried.safetensors").exists() == (context == "stream")


def test_without_the_carried_state_a_resumed_run_would_differ(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = api.train(recipe("stream", 8), tmp_path / "whole")
    api.train(recipe("stream", 5), tmp_path / "parts")
    monkeypatch.setattr(LanguageModelling, "load_carried", lambda self, tensors: None)
    resumed = api.train(recipe("stream", 8), tmp_path / "parts", resume=True)
    assert any(
        not torch.equal(tensor, resumed.module.state_dict()[name]) for name, tensor in whole.module.state_dict().items()
    )


def test_own_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("".join(f"Number {n}, please!\n" for n in range(100)))
    config = LanguageModelling.from_files(LanguageModellingConfig("agreement"), str(path), None)
    task = LanguageModelling(config)
    assert task.units.tokens("Number 7, please!") == ["Number", "7", ",", "please", "!"]
    assert [text.count("\n") for text in task.splits.values()] == [
        91,
        4,
        5,
    ]  # cuts are by characters, at the next line end
    task.save(tmp_path)
    again = LanguageModelling.load(tmp_path, config)
    assert again.units == task.units
    evaluation = task.evaluate(model_for(task), str(path), full=True)
    assert evaluation.details["split"] == "file_mine"
    assert evaluation.details["count"] == 600
    with pytest.raises(ConfigError, match="a text has one side: got --target other"):
        LanguageModelling.from_files(config, str(path), "other")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: LanguageModelling(LanguageModellingConfig("files")).splits, "corpus='files' needs a file"),
        (lambda folder: LanguageModelling(LanguageModellingConfig("ptbb")), r"task\.corpus: got 'ptbb'.*mean 'ptb'"),
        (lambda folder: LanguageModelling(LanguageModellingConfig("multi30k")), "multi30k has parallel text"),
        (lambda folder: made().evaluate(model_for(made()), "tets"), "unknown split: got 'tets'.*mean 'test'"),
        (lambda folder: made().evaluate(model_for(made()), "no.txt"), r"no\.txt"),
        (lambda folder: LanguageModelling.load(folder, made().config), r"units\.json cannot be read"),
        (lambda folder: made().settings(temperatur=1.0), "unknown setting 'temperatur'.*mean 'temperature'"),
        (lambda folder: made().predict(model_for(made()), "one"), "several texts are expected"),
    ],
)
def test_errors(make: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=words):
        make(tmp_path)


def test_examples() -> None:
    task = made()
    model = model_for(task)
    numbers = task.choose("test", 3)
    examples = task.examples(model, "test", numbers)
    assert len(examples) == 3
    for example in examples:
        assert example.reference.startswith(example.source)
        assert example.output.startswith(example.source)
        assert example.prediction.explanations[0].kind == "matrix"
    assert task.config.describe_data() == "agreement, words"
    assert change(recipe("sentence", 5), ["task.units=characters"]).task.describe_data() == "agreement, characters"

"""Captioning: from pictures to batches, losses, figures and captions; soft, hard, fine-tuned."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.base import ConfigError
from regard.data import EOS, PAD, Vocabulary
from regard.data.captions import Captions, caption_tokens
from regard.data.images import Box
from regard.datasets.shapes import Painter, paint, shapes
from regard.decode import Shared, Step
from regard.models import ShowAttendTell, ShowAttendTellConfig
from regard.nn.efficientnet import Backbone, efficientnet_lite0
from regard.nn.loss import token_loss
from regard.nn.reward import MovingBaseline
from regard.tasks.caption_loss import twice
from regard.tasks.captioning import Captioning, CaptioningConfig
from regard.tasks.features import EncoderConfig
from regard.tasks.search import Search
from regard.train import Train, checkpoints, load_checkpoint, train_model

PATCHES = EncoderConfig(name="patches", size=56, keep=False)
SMALL = shapes((12, 4, 4))


def task(**settings: Any) -> Captioning:
    base: dict[str, Any] = {"dataset": "shapes", "encoder": PATCHES, "batch_size": 4, "min_count": 1}
    base["metrics"] = ("bleu", "cider")
    return Captioning(CaptioningConfig(**base | settings), splits=SMALL)


@dataclass(frozen=True)
class Config:
    """What a model's config has that the data decides."""

    vocabulary: int = 0
    feature_dim: int = 0
    encoder: str | None = None
    encoder_stage: int = 0


class Reader(nn.Module):
    """Knows the captions by heart: it finds a picture's features, and says its caption."""

    def __init__(self, made: Captioning, *, hard: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.size, self.hard, self.seen = len(made.vocabulary), hard, []  # type: int, bool, list[Tensor]
        self.baseline = MovingBaseline()
        rows = []
        for split in ("valid", "test"):
            for several in SMALL[split].captions:
                rows.append([*made.vocabulary.encode(caption_tokens(several[0])), EOS])
        self.captions = torch.tensor(rows)
        stores = [made._store(split, torch.device("cpu")) for split in ("valid", "test")]
        self.known = torch.cat(stores).float().flatten(1)

    def encode(self, features: Tensor) -> Tensor:
        self.seen.append(features)
        return torch.cdist(features.float().flatten(1), self.known).argmin(1)

    def init_state(self, memory: Tensor) -> Any:
        return Shared(memory), torch.zeros_like(memory)

    def step(self, tokens: Tensor, state: Any) -> Step:
        shared, time = state
        which = shared.value.repeat_interleave(len(tokens) // len(shared.value))
        wanted = self.captions[which, time.clamp(max=8)]
        return Step(nn.functional.one_hot(wanted, self.size) * 20.0, (shared, time + 1), torch.ones(len(tokens), 49))

    def forward(self, features: Tensor, inputs: Tensor) -> Any:
        self.seen.append(features)
        shape = (*inputs.shape, 49)
        weights = torch.full(shape, 1 / 49) + 0 * self.weight
        logits = torch.zeros(*inputs.shape, self.size) + self.weight
        log_prob = entropy = weights.sum(-1) if self.hard else None
        return SimpleNamespace(
            logits=logits, weights=weights, expected=weights, log_prob=log_prob, entropy=entropy,
            baseline=self.baseline,
        )  # fmt: skip


# ── words and batches ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_has_pictures_and_their_captions() -> None:
    made = task()
    batches = made.batches(seed=0)
    numbers: list[int] = []
    for _ in range(batches.epoch_length()):
        batch = next(batches)
        assert batch.count == batch.target_lengths.sum()
        for number, target in zip(batch.source[:, 0].tolist(), batch.targets, strict=True):
            assert " ".join(made.vocabulary.decode(target.tolist())) == SMALL["train"].captions[number][0]
            numbers.append(number)
    assert sorted(numbers) == list(range(12))


def test_fitted_batches_have_one_shape() -> None:
    made = task(fit=4, batch_size=5)
    batches = made.batches(seed=0)
    assert {next(batches).inputs.shape for _ in range(6)} == {(5, 12)}
    fitted, plain = next(made.batches(seed=0)), next(task(batch_size=5).batches(seed=0))
    assert fitted.count == plain.count
    model = Reader(made)
    torch.testing.assert_close(made.loss(model, fitted).total, made.loss(model, plain).total)


def test_rare_words_and_long_captions_are_left_out() -> None:
    common = task(min_count=8).vocabulary
    assert "a" in common
    assert len(common) < len(task().vocabulary)
    with pytest.raises(Exception, match="too few pairs"):
        task(max_words=5).batches(seed=0)


def test_what_the_data_decides() -> None:
    made = task()
    assert made.complete(Config()) == Config(len(made.vocabulary), 194)
    assert made.tests[0] == "test"


# ── the loss ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_loss_is_a_sum_over_real_tokens() -> None:
    made, model = task(doubly_stochastic=0.0, smoothing=0.1), None
    model = Reader(made)
    batch = next(made.batches(seed=0))
    loss = made.loss(model, batch)
    logits = torch.zeros(*batch.targets.shape, len(made.vocabulary))
    wanted = cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss.total, wanted)
    assert torch.equal(model.seen[-1], made._store("train", torch.device("cpu"))[batch.source[:, 0]])


def test_the_doubly_stochastic_term_counts() -> None:
    made = task(doubly_stochastic=2.0)
    model, batch = Reader(made), next(made.batches(seed=0))
    with_term, without = made.loss(model, batch), task(doubly_stochastic=0.0).loss(model, batch)
    torch.testing.assert_close(with_term.total, without.total + 2 * with_term.figures["doubly_stochastic"])


def test_a_caption_in_both_ways() -> None:
    """Both halves count half; with nothing drawn they are one caption, and the loss is the plain one."""
    config = task(doubly_stochastic=0.0, captions_per_picture=2, baseline="expected", reward=1.0, entropy=0.0).config
    made = Captioning(config, splits=several(2))
    size = ShowAttendTellConfig(len(made.vocabulary), 194, 16, 16, 16, align="sample", dropout=0.0, semi_sampling=1.0)
    model, batch = ShowAttendTell(size).train(), next(made.batches(seed=0))
    seen: list[Any] = []
    model.register_forward_hook(lambda module, given, out: seen.append(out))
    loss = made.loss(model, batch)
    assert seen[-1].logits.shape[0] == 2 * len(batch.inputs)
    expected, drawn = seen[-1].weights.view(len(batch.inputs) // 2, 2, 2, *seen[-1].weights.shape[1:]).unbind(1)
    assert (drawn.amax(-1) == 1).all()
    assert (expected.amax(-1) < 1).all()
    alone = replace(made.config, baseline="moving")
    plain = Captioning(alone, splits=several(2)).loss(model, batch)  # all captions with expected places
    half = token_loss(
        seen[0].logits.view(-1, 2, 2, *seen[0].logits.shape[1:])[:, 0].flatten(0, 1), batch.targets, ignore=PAD
    )
    torch.testing.assert_close(half, plain.figures["cross_entropy"])
    whole = token_loss(seen[0].logits, twice(batch.targets, each=2), ignore=PAD)
    torch.testing.assert_close(loss.figures["cross_entropy"], whole / 2)


def test_only_drawn_places_have_such_a_baseline() -> None:
    made = task(baseline="expected")
    with pytest.raises(
        ConfigError, match=r"places that are drawn: got model.align=softmax. Try: set model.align=sample"
    ):
        made.complete(ShowAttendTellConfig(0))
    assert made.complete(ShowAttendTellConfig(0, align="sample")).vocabulary == len(made.vocabulary)


def test_the_reward_moves_the_baseline() -> None:
    made = task(doubly_stochastic=0.0, reward=0.5, entropy=0.25)
    model, batch = Reader(made, hard=True).train(), next(made.batches(seed=0))
    loss = made.loss(model, batch)
    mean = -torch.tensor(float(len(made.vocabulary))).log()
    assert model.baseline.value.item() == pytest.approx(0.1 * mean.item())
    assert loss.figures["reward"].item() == pytest.approx(batch.count * mean.item(), rel=1e-5)


# ── pictures with chance ────────────────────────────────────────────────────────────────────────────────────────────


def test_mirrored_pictures() -> None:
    made = task(mirrored=True)
    store, numbers = made._store("train", torch.device("cpu")), torch.arange(12)
    assert len(store) == 24
    assert len(made._store("valid", torch.device("cpu"))) == 4
    assert torch.equal(made.features_of(nn.Linear(1, 1), "train"), store[:12])
    shown = made.training_views(numbers)
    plain = [torch.equal(shown[n], store[n]) for n in range(12)]
    turned = [torch.equal(shown[n], store[12 + n]) for n in range(12)]
    assert [a or b for a, b in zip(plain, turned, strict=True)] == [True] * 12
    assert 0 < sum(plain) < 12


def test_views_are_cut_and_turned_by_chance() -> None:
    encoder = EncoderConfig(size=56, keep=False)
    made = Captioning(
        CaptioningConfig(dataset="shapes", encoder=encoder, finetune=True, jitter=8, mirrored=True), splits=SMALL
    )
    numbers = torch.arange(12)
    store, shown = made._store("train", torch.device("cpu")), made.training_views(numbers)
    assert store.shape == (12, 3, 64, 64)
    assert shown.shape == (12, 3, 56, 56)
    places = set()
    for n in range(12):
        found = [
            (down, right, flip)
            for down in range(9)
            for right in range(9)
            for flip in (False, True)
            for cut in [store[n, :, down : down + 56, right : right + 56]]
            if torch.equal(shown[n], cut.flip(-1) if flip else cut)
        ]
        assert found
        places.add(found[0])
    assert len(places) > 4
    assert made._store("valid", torch.device("cpu")).shape == (4, 3, 56, 56)

    class Eye(nn.Linear):
        def see(self, images: Tensor) -> Tensor:
            return images.flatten(2).mT.float()

    assert torch.equal(made.features_of(Eye(1, 1), "train"), store[..., 4:60, 4:60].flatten(2).mT.float())


def test_fine_tuning_starts_from_the_encoder_at_hand() -> None:
    encoder = EncoderConfig(size=16, stage=1, keep=False)
    given = efficientnet_lite0(stage=1)
    made = Captioning(
        CaptioningConfig(dataset="shapes", encoder=encoder, finetune=True, min_count=1), splits=SMALL, encoder=given
    )
    model = nn.Module()
    model.encoder = efficientnet_lite0(stage=1)
    made.begin(model)
    assert all(torch.equal(a, b) for a, b in zip(given.parameters(), model.encoder.parameters(), strict=True))
    config = made.complete(Config())
    assert (config.encoder, config.encoder_stage, config.feature_dim) == ("efficientnet_lite0", 1, 16)
    assert made._store("valid", torch.device("cpu")).shape == (4, 3, 16, 16)


def test_evaluation_encodes_each_picture_once() -> None:
    config = CaptioningConfig(
        "shapes", encoder=EncoderConfig(size=16, stage=1, keep=False), finetune=True, min_count=1, max_words=4
    )
    made = Captioning(config, splits=several(3), encoder=efficientnet_lite0(stage=1))
    model, seen = tiny(made).eval(), list[int]()
    assert model.encoder is not None
    model.encoder.register_forward_hook(lambda module, given, out: seen.append(len(given[0])))
    made.evaluate(model, "valid", full=True)
    assert sum(seen) == len(SMALL["valid"])


# ── several captions of a picture, early stages that stay ───────────────────────────────────────────────────────────


def tiny(made: Captioning, **settings: Any) -> ShowAttendTell:
    torch.manual_seed(1)
    sizes = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "project_dim": 8, "dropout": 0.0}
    model = ShowAttendTell(made.complete(ShowAttendTellConfig(0, **sizes | settings)))
    made.begin(model)
    return model


def several(count: int) -> dict[str, Captions]:
    """The shapes, with more captions of each picture: the same words from behind, and so on."""
    found = {}
    for split, captions in SMALL.items():
        texts = ((one, " ".join(one.split()[::-1]), f"here is {one}")[:count] for (one,) in captions.captions)
        found[split] = replace(captions, captions=tuple(texts))
    return found


@pytest.mark.parametrize("finetune", [False, True])
def test_pictures_are_shown_once_for_all_their_captions(finetune: bool) -> None:
    encoder = EncoderConfig(size=16, stage=1, keep=False) if finetune else PATCHES
    config = CaptioningConfig(
        "shapes", encoder=encoder, finetune=finetune, batch_size=10, captions_per_picture=3, min_count=1, fit=4
    )
    made = Captioning(config, splits=several(3), encoder=efficientnet_lite0(stage=1) if finetune else None)
    for align in ("softmax", "sample"):
        model, batches = tiny(made, align=align), made.batches(seed=0)
        shown: list[Tensor] = []
        model.register_forward_pre_hook(lambda module, given, shown=shown: shown.append(given[0]))
        for _ in range(batches.epoch_length()):
            batch = next(batches)
            assert batch.inputs.shape[0] == 9
            loss = made.loss(model, batch)
            loss.total.backward()
            store = made._store("train", torch.device("cpu"))
            assert torch.equal(shown[-1], store[batch.source[::3, 0]])
            assert loss.total.isfinite()


@pytest.mark.parametrize(("count", "each"), [(1, 1), (2, 2), (3, 3)])
def test_no_caption_twice_where_pictures_have_few(count: int, each: int) -> None:
    config = task(captions_per_picture=3, batch_size=6).config
    made = Captioning(config, splits=several(count))
    batch = next(made.batches(seed=0))
    assert made.each == each
    rows = [(source, *words) for (source,), words in zip(batch.source.tolist(), batch.inputs.tolist(), strict=True)]
    assert len(set(rows)) == len(rows) == 6
    assert made.loss(tiny(made), batch).total.isfinite()


def test_the_loss_is_that_of_pictures_repeated() -> None:
    config = task(captions_per_picture=2, batch_size=6).config
    made = Captioning(config, splits=several(2))
    plain = Captioning(replace(config, captions_per_picture=1), splits=several(2))
    model, batch = tiny(made).eval(), next(made.batches(seed=0))
    torch.testing.assert_close(made.loss(model, batch).total, plain.loss(model, batch).total)


@pytest.mark.parametrize("precision", ["bfloat16", "pure_bfloat16"])
def test_early_stages_stay_through_training(precision: Any, tmp_path: Path) -> None:
    """Weight decay, running mean, checkpoints and resuming: what is frozen is saved, and never moves."""
    encoder, given = EncoderConfig(size=8, stage=2, keep=False), efficientnet_lite0(stage=2)
    config = CaptioningConfig(
        "shapes", encoder=encoder, finetune=True, batch_size=6, captions_per_picture=2, min_count=1, max_words=9
    )
    made = Captioning(config, splits=several(2), encoder=given)
    settings = Train(
        steps=2, lr=0.01, optimiser="adamw", weight_decay=0.5, ema=0.5, clip=1.0, schedule="constant", warmup=0,
        save_every=1, evaluate_every=2, log_every=1, precision=precision,
    )  # fmt: skip
    model = train_model(tiny(made, encoder_frozen=2), made, settings, tmp_path / "whole")
    kept, found = given.state_dict(), model.encoder.state_dict()  # type: ignore[union-attr]
    learnt = {name for name, part in model.encoder.named_parameters() if part.requires_grad}  # type: ignore[union-attr]
    assert 0 < len(learnt) < len(list(given.parameters()))
    assert {name for name in kept if not torch.equal(kept[name], found[name])} == learnt
    first, last = checkpoints(tmp_path / "whole" / "checkpoints")
    files, _ = load_checkpoint(last)
    assert "encoder.module.stem.weight" in files["model"]
    assert torch.equal(files["mean"]["encoder.module.stem.weight"], given.module.stem.weight)  # type: ignore[union-attr]
    assert not any(name.startswith("encoder.module.stem") for name in files["optimiser"])
    shutil.copytree(first, tmp_path / "again" / "checkpoints" / first.name)
    again = train_model(tiny(made, encoder_frozen=2), made, settings, tmp_path / "again", resume=True)
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


# ── evaluation ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_of_a_perfect_reader() -> None:
    made = task()
    model = Reader(made).train()
    score = made.evaluate(model, "valid")
    assert score.best == "bleu_4"
    assert score.figures["bleu_4"] == score.figures["bleu_4_brevity"] == pytest.approx(100)
    assert score.figures["exact"] == 1
    assert score.figures["words"] == 8
    assert score.figures["loss"] == pytest.approx(np.log(len(made.vocabulary)), rel=1e-5)
    assert model.training
    full = made.evaluate(model, "test", full=True)
    assert full.figures["cider"] == pytest.approx(1000)
    assert full.details["outputs"] == [several[0] for several in SMALL["test"].captions]
    assert set(full.details) == {"split", "count", "seconds", "settings", "how", "signatures", "missing", "outputs"}
    with pytest.raises(ConfigError, match="unknown split: got 'dev'"):
        made.evaluate(model, "dev")


def test_captions_of_new_pictures(tmp_path: Path) -> None:
    made = task()
    model, split = Reader(made), SMALL["test"]
    assert isinstance(split.read, Painter)
    wide = np.full((56, 96, 3), 128, np.uint8)
    wide[:, 20:76] = paint(split.read.scenes[split.names[1]])
    path = tmp_path / "one.png"
    path.write_bytes(split.read(split.names[0]))
    found = made.predict(model, [path, wide, split.read(split.names[2])], settings=Search(beams=2, nbest=2))
    assert [several[0].text for several in found] == [split.captions[n][0] for n in range(3)]
    first, second = found[0][0], found[1][0]
    assert first.weights is not None
    assert first.weights.shape == (8, 49)  # one row a word; the end is not one
    assert (first.name, first.grid, first.finished) == (str(path), (7, 7), True)
    assert second.box == Box(20, 0, 76, 56)
    assert second.image is not None
    assert second.image.shape == (56, 96, 3)
    assert len(found[0]) == 2
    assert made.predict(model, []) == []


def test_unknown_words_are_not_written() -> None:
    made = task()

    class Unknowing(Reader):
        def step(self, tokens: Tensor, state: Any) -> Step:
            step = super().step(tokens, state)
            step.logits[:, 3] += 99
            return step

    assert made.evaluate(Unknowing(made), "valid").figures["exact"] == 1


# ── run folders, files, settings ────────────────────────────────────────────────────────────────────────────────────


def test_saved_and_loaded(tmp_path: Path) -> None:
    made = task()
    made.save(tmp_path)
    loaded = Captioning.load(tmp_path, made.config)
    assert loaded.vocabulary == made.vocabulary
    assert "splits" not in loaded.__dict__  # nothing was read for it
    model = Reader(made)
    [[caption]] = loaded.predict(model, [SMALL["test"].read(SMALL["test"].names[3])])
    assert caption.text == SMALL["test"].captions[3][0]


def test_the_users_own_pictures(tmp_path: Path) -> None:
    source = shapes((30, 1, 1))["train"]
    folder = tmp_path / "pictures"
    folder.mkdir()
    lines = []
    for name, (caption,) in zip(source.names, source.captions, strict=True):
        (folder / name).write_bytes(source.read(name))
        lines.append(f"{name}\t{caption}\n")
    (tmp_path / "captions.tsv").write_text("".join(lines))
    config = CaptioningConfig(
        dataset="files", caption_file=str(tmp_path / "captions.tsv"), folder=str(folder), encoder=PATCHES, min_count=1
    )
    made = Captioning(config)
    assert {name: len(split) for name, split in made.splits.items()} == {"train": 24, "valid": 3, "test": 3}
    assert made._store("valid", torch.device("cpu")).shape == (3, 49, 194)
    made.prepare("cpu")
    with pytest.raises(ConfigError, match="needs a file and a folder"):
        _ = Captioning(replace(config, folder=None)).splits


def test_an_encoder_of_ones_own() -> None:
    encoder = Backbone(nn.AvgPool2d(8), channels=3).eval()
    made = Captioning(task().config, splits=SMALL, encoder=encoder)
    assert made._store("valid", torch.device("cpu")).shape == (4, 49, 3)


def test_given_words_are_used() -> None:
    made = Captioning(task().config, splits=SMALL, vocabulary=Vocabulary(["a"]))
    assert len(made.vocabulary) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "coco"}, r"task\.dataset: got 'coco'; expected one of flickr8k, shapes, .*files"),
        ({"smoothing": 1.0}, r"task\.smoothing: got 1\.0"),
        ({"doubly_stochastic": -1.0}, r"task\.doubly_stochastic: got -1\.0"),
        ({"finetune": True}, r"task\.finetune: got patches"),
        ({"captions_per_picture": 0}, r"task\.captions_per_picture: got 0; expected 1 or more"),
        ({"search": Search(2, nbest=3)}, r"nbest: got 3; expected at most beams"),
        ({"captions_per_picture": 5}, r"task\.captions_per_picture: got 5; expected 1 to task\.batch_size, which is 4"),
        ({"jitter": 3}, r"task\.jitter: got finetune=false"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task(**settings)

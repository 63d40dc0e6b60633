"""`nodes.py … work FOLDER KIND …`: what several processes do in the tests of sharding, restarts and shared folders.

The dots are arguments of `torchrun`, whose agent this program runs, with one difference: it has imported all that is
needed and makes its processes as copies of itself, which begin at once. `test_distributed.py` starts `torchrun` itself.

By two nodes with two processes each, for each KIND of KINDS: a run that nobody disturbs (whole), one that ends early
(half), one that a signal to one process stops and that goes on (stopped), and one of which a process is killed by
SIGKILL (killed); `torchrun` starts all of them again, and what is done by then is passed over.
With `--resume` by other numbers of processes: the halves go on, in folders of their own (on_2, on_3).
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # it and sharding: what each copy would load late
import toy
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, parse_args

from regard.base import RegardError
from regard.models import Transformer, TransformerConfig
from regard.tasks import Loss, Translation, TranslationConfig
from regard.train import World, joined, sharding, was_restarted  # noqa: F401
from regard.train.shared_folder import check_shared

KINDS: dict[str, dict[str, Any]] = {"copies": {}, "shards": {"shard": True}}
TRAIN: dict[str, Any] = {"steps": 7, "ema": 0.9, "evaluate_every": 4, "save_every": 3, "log_every": 1, "clip": 0.5,
                         "keep": 9}  # fmt: skip
HALF, VICTIM, LAST = 4, 3, 5  # steps of half a run; who is killed, and in which step


class Disturbed(Translation):
    """The n-th loss is disturbed: by a signal to this process."""

    moment, number, seen = 0, signal.SIGINT, 0

    def loss(self, model: Any, batch: Any) -> Loss:
        self.seen += 1
        if self.seen == self.moment:
            os.kill(os.getpid(), self.number)
        return super().loss(model, batch)


def task() -> Disturbed:
    config = TranslationConfig(batch_size=8, batch_tokens=None)
    return Disturbed(config, splits={"train": toy.pairs(60, 0), "valid": toy.pairs(2, 1)})


def model(learner: Translation) -> Transformer:
    """A small one, with one table for both embeddings and the output: units of both sides are as many."""
    torch.manual_seed(5)
    size = max(learner.vocabularies)
    config = TransformerConfig(
        size, size, dim=8, hidden_dim=12, num_heads=2, encoder_layers=2, decoder_layers=1, dropout=0.0
    )
    return Transformer(config)


def one(folder: Path, world: World | None, resume: bool = False, learner: Any = None, **settings: Any) -> Any:
    learner = learner or task()
    return toy.run(folder, task=learner, model=model(learner), world=world, resume=resume, **{**TRAIN, **settings})


def is_done(folder: Path, world: World) -> bool:
    return bool(world.same((folder / "model.safetensors").exists()))


def stopped(folder: Path, world: World, **settings: Any) -> list[str]:
    """Broken off in the third step by a signal to one process; what each of them said, and the checkpoints then."""
    learner = task()
    learner.moment = 3 if world.rank == 2 else 0
    try:
        one(folder, world, learner=learner, **settings)
        end = "trained to its end"
    except KeyboardInterrupt:
        end = "interrupted"
    saved = sorted(path.name for path in (folder / "checkpoints").iterdir())
    world.wait()
    one(folder, world, resume=True, **settings)
    return [end, *saved]


def killed(folder: Path, world: World, **settings: Any) -> bool:
    """One process dies in the middle; after the restart the run goes on."""
    learner, note = task(), folder.with_suffix(".killed")
    learner.number = signal.SIGKILL
    again = was_restarted(folder, world)
    if world.rank == VICTIM and not note.exists():
        note.write_text("")
        learner.moment = LAST
    one(folder, world, resume=again, learner=learner, **settings)
    return again


def refused(work: Any) -> str:
    try:
        work()
    except RegardError as error:
        return str(error)
    return "not refused"


def disturbed(place: Path, world: World, kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for kind, settings in kinds.items():
        for name, steps in (("whole", TRAIN["steps"]), ("half", HALF)):
            if not is_done(place / f"{name}_{kind}", world):
                trained = one(place / f"{name}_{kind}", world, **{**settings, "steps": steps})
                facts[f"{name}_{kind}"] = sum(p.double().sum().item() for p in trained.parameters())
        if not is_done(place / f"stopped_{kind}", world):
            facts[f"stopped_{kind}"] = stopped(place / f"stopped_{kind}", world, **settings)
    if not world.same((place / "first_0.json").exists()):  # restarts are counted by each machine for itself
        facts["again"] = refused(lambda: one(place / "half_shards", world, shard=True))
        own = place / f"of_rank_{world.rank}"
        own.mkdir()
        facts["unshared"] = refused(lambda: check_shared(own, world))
        (place / f"first_{world.rank}.json").write_text(json.dumps(facts))
    for kind, settings in kinds.items():
        if not is_done(place / f"killed_{kind}", world):
            facts[f"killed_{kind}"] = killed(place / f"killed_{kind}", world, **settings)
    return facts


def work(folder: str, *words: str) -> None:
    """What one process does, from its beginning to its end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the handlers of the agent came with the copy
    signal.signal(signal.SIGINT, signal.default_int_handler)
    place, kinds = Path(folder), {kind: settings for kind, settings in KINDS.items() if kind in words}
    with joined("cpu") as world:
        if "--resume" in words:
            for kind, settings in kinds.items():
                folder = place / f"on_{world.size}_{kind}"
                if world.is_first:
                    shutil.copytree(place / f"half_{kind}", folder)
                world.wait()
                one(folder, world, resume=True, **settings)
        else:
            facts = disturbed(place, world, kinds)
            (place / f"last_{world.rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    config, _, (_, _, *arguments) = config_from_args(parse_args(sys.argv[1:]))
    config.start_method = "fork"
    elastic_launch(config, work)(*arguments)

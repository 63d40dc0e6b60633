"""How to train: every choice of the loop, with its default, once."""

from dataclasses import dataclass
from typing import Literal

from regard.base import ConfigError, did_you_mean

OPTIMISERS = ("adam", "adamw", "sgd", "nag", "adadelta")
SCHEDULES = ("constant", "inverse_sqrt", "noam", "linear", "cosine", "halving", "plateau")
PRECISIONS = ("float32", "tf32", "bfloat16", "pure_bfloat16")


@dataclass(frozen=True)
class Train:
    """Settings of a training. A step is one update; with `accumulate` it sees several batches."""

    steps: int = 10_000
    seconds: float | None = None  # of training, without evaluation and saving; whichever limit comes first
    seed: int = 0

    optimiser: str = "adam"
    lr: float = 1e-3  # the highest one
    betas: tuple[float, float] = (0.9, 0.999)  # adam
    eps: float = 1e-8
    momentum: float = 0.99  # sgd, nag
    rho: float = 0.95  # adadelta
    weight_decay: float = 0.0
    undecayed: tuple[str, ...] = ()  # not of parameters with one of these in their name, such as gate or bias
    clip: float | None = 1.0  # the norm of all gradients together; None: as they are

    schedule: str = "constant"
    warmup: int = 0  # steps of rising rate, for every schedule
    hold: float = 0.5  # halving: after this share of the training …
    halvings: int = 4  # … so many times by half, at equal distances
    floor: float = 0.0  # linear, cosine: where the rate ends, as a share of lr
    factor: float = 0.1  # plateau: times this when the figure has not improved

    accumulate: int = 1
    precision: Literal["float32", "tf32", "bfloat16", "pure_bfloat16"] = "float32"  # of products; pure: of weights too
    capture: bool = False  # CUDA: record one graph a shape of batch, and replay it
    ema: float | None = None  # decay of the running mean of weights that is evaluated and kept; None: none
    average: int = 0  # at the end: the mean of so many last checkpoints; 0: the best one

    log_every: int = 100
    evaluate_every: int = 1000
    save_every: int = 1000
    keep: int = 3  # checkpoints, besides the best one
    tensorboard: bool = False  # events beside metrics.jsonl; needs the extra of that name
    patience: int | None = None  # evaluations without improvement before stopping

    def __post_init__(self) -> None:
        for name in ("steps", "accumulate", "log_every", "evaluate_every", "save_every", "keep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name}", got=getattr(self, name), expected="1 or more")
        for name, menu in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in menu:
                got = getattr(self, name)
                raise ConfigError(
                    f"train.{name}", got=repr(got), expected=f"one of {', '.join(menu)}", cure=did_you_mean(got, menu)
                )
        for name in ("lr", "seconds", "clip", "patience"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"train.{name}", got=value, expected="more than 0")
        for name in ("seed", "warmup", "average"):
            if getattr(self, name) < 0:
                raise ConfigError(f"train.{name}", got=getattr(self, name), expected="0 or more")
        if "" in self.undecayed:
            cure = "parts of names, such as train.undecayed=gate,bias"
            raise ConfigError("train.undecayed", got=self.undecayed, expected="no empty name", cure=cure)
        if self.ema is not None and not 0 <= self.ema < 1:
            raise ConfigError("train.ema", got=self.ema, expected="0 ≤ ema < 1", cure="0.999 is usual")
        if self.optimiser == "nag" and not self.momentum > 0:
            raise ConfigError("train.momentum", got=self.momentum, expected="more than 0 for nag", cure="use sgd")
        if self.average > self.keep:
            raise ConfigError(
                "train.average", got=self.average, expected=f"at most train.keep, {self.keep}", cure="raise train.keep"
            )

"""How to train: every choice of the loop, with its default, once."""

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.base import ConfigError, check_settings
from regard.base.ranges import BatchSize, Count, Natural, OneOf, Positive, Range, Seed, Share, UpToOne, Weight

OPTIMISERS = ("adam", "adamw", "sgd", "nag", "adadelta")
SCHEDULES = ("constant", "inverse_sqrt", "noam", "linear", "cosine", "halving", "plateau")
Decay = Annotated[float, Range(least=0, below=1, cure="use 0.999, a usual value")]


@dataclass(frozen=True)
class Train:
    """Settings of a training. A step is one update; with `accumulate` it sees several batches."""

    steps: Count = 10_000  # updates
    seconds: Positive | None = None  # of training, without evaluation and saving; whichever limit comes first
    seed: Seed = 0  # of what is drawn

    optimiser: Annotated[str, OneOf(OPTIMISERS)] = "adam"  # how weights are updated
    lr: Positive = 1e-3  # the highest one
    betas: tuple[Share, Share] = (0.9, 0.999)  # adam
    eps: Weight = 1e-8  # of the optimiser, against a division by zero
    momentum: Share = 0.99  # sgd, nag
    rho: UpToOne = 0.95  # adadelta
    weight_decay: Weight = 0.0  # by which weights shrink
    undecayed: tuple[str, ...] = ()  # not of parameters with one of these in their name, such as gate or bias
    clip: Positive | None = 1.0  # the norm of all gradients together; None: as they are

    schedule: Annotated[str, OneOf(SCHEDULES)] = "constant"  # how the learning rate changes
    warmup: Natural = 0  # steps of rising rate, for every schedule
    lead: Share = 0.0  # halving: the first share of the training, at half the rate; the rest is as without it
    hold: UpToOne = 0.5  # halving: after this share of the training …
    halvings: Annotated[int, Range(least=0, most=1000)] = 4  # … so many times by half, at equal distances
    floor: UpToOne = 0.0  # linear, cosine: where the rate ends, as a share of lr
    factor: Annotated[float, Range(above=0, most=1)] = 0.1  # plateau: times this when the figure has not improved

    accumulate: BatchSize = 1  # batches in an update
    precision: Literal["float32", "tf32", "bfloat16", "pure_bfloat16"] = "float32"  # of products; pure: of weights too
    capture: bool = False  # CUDA: record one graph a shape of batch, and replay it
    shard: bool = False  # several processes: each keeps a part of weights, gradients and moments; one: all
    ema: Decay | None = None  # decay of the running mean of weights that is evaluated and kept; None: none
    average: Natural = 0  # at the end: the mean of so many last checkpoints; 0: the best one

    log_every: Count = 100  # updates between lines of the log
    evaluate_every: Count = 1000  # updates between evaluations
    save_every: Count = 1000  # updates between checkpoints
    keep: Count = 3  # checkpoints, besides the best one
    tensorboard: bool = False  # events beside metrics.jsonl; needs the extra of that name
    patience: Count | None = None  # evaluations without improvement before stopping

    def __post_init__(self) -> None:
        check_settings(self, "train")
        if "" in self.undecayed:
            cure = "give parts of names, such as train.undecayed=gate,bias"
            raise ConfigError("train.undecayed", got=self.undecayed, expected="no empty name", cure=cure)
        if self.optimiser == "nag" and not self.momentum > 0:
            raise ConfigError(
                "train.momentum", got=self.momentum, expected="more than 0 for nag", cure="set train.optimiser=sgd"
            )
        if self.average > self.keep:
            raise ConfigError(
                "train.average", got=self.average, expected=f"at most train.keep, {self.keep}", cure="raise train.keep"
            )

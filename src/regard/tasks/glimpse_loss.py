"""What an answer is worth: the loss of a model that classifies, and of one that also chose where to look."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.base import ConfigError, check_settings
from regard.base.ranges import Certainty, Few, Range, Share, UpToOne, Weight
from regard.data.pictures import IGNORE
from regard.nn.reward import baseline_error, leave_one_out, reinforce
from regard.tasks.task import Loss

Draws = Annotated[int, Range(least=0, most=10_000)]


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """What an answer, and a choice of where to look, is rewarded with."""

    smoothing: Share = 0.0  # of labels
    reward: Literal["correct", "probability"] = "correct"  # 1 or 0 for a label, or what the model gave the right one
    reward_weight: Weight = 1.0  # of the policy's loss beside the cross entropy
    baseline_weight: Weight = 1.0  # of the baseline's loss
    entropy_weight: Weight = 0.0  # of discrete choices
    every_weight: Weight = 0.0  # of the mean cross entropy after each glimpse, beside that of the answer
    discount: UpToOne = 1.0  # γ: a right answer after n glimpses is worth γ^(n−1)
    until_wrong: bool = False  # sequences: learn up to the first wrong label only (Ba et al. 2015)
    rollouts: Few = 1  # rollouts of each picture in training; several are a baseline to one another
    draws: Draws = 0  # evaluation: 0 looks at the means, 1 draws once, more average so many rollouts


@dataclass(frozen=True)
class GlimpseSettings:
    """How a model looks when it predicts or is evaluated; None is as its run says."""

    draws: Draws | None = None  # 0 looks at the means, 1 draws once, more average so many rollouts
    certainty: Certainty | None = None  # how likely stopping must be

    def __post_init__(self) -> None:
        check_settings(self)

    def options(self, model: nn.Module, draws: int) -> dict[str, Any]:
        """What the model is called with for so many `draws`."""
        taken = signature(model.forward).parameters
        if self.draws and "sample" not in taken:
            raise ConfigError(f"a {type(model).__name__} does not draw where to look", got=f"draws={self.draws}")
        if self.certainty is not None and "certainty" not in taken:
            what = f"a {type(model).__name__} does not decide when to stop"
            raise ConfigError(what, got=f"certainty={self.certainty}")
        options: dict[str, Any] = {} if self.certainty is None else {"certainty": self.certainty}
        return options | ({"sample": True} if draws else {})


def classification_loss(out: Any, labels: Int[Tensor, "b s"], settings: RewardSettings) -> Loss:
    """The loss of what a model returned; of `settings.rollouts` neighbours, which saw the same picture, the mean."""
    logits = out.logits.float()  # [b s c]
    real = labels != IGNORE
    right = (logits.detach().argmax(-1) == labels) & real  # [b s]
    counts = real if not settings.until_wrong else real & _before_wrong(right | ~real)
    losses = F.cross_entropy(
        logits.flatten(0, 1),
        labels.masked_fill(~counts, IGNORE).flatten(),
        ignore_index=IGNORE,
        label_smoothing=settings.smoothing,
        reduction="sum",
    )
    all_right = (right | ~real).all(1)
    figures = {"cross_entropy": losses.detach(), "correct": all_right.sum()}
    if getattr(out, "log_probability", None) is None:
        return _mean(Loss(losses, figures), settings.rollouts)
    worth = right.float()
    if settings.reward == "probability":  # the mean of the former, if answers were drawn: the same aim, less noise
        worth = logits.detach().softmax(-1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1) * real
    worth = torch.cat([worth, worth.sum(1, keepdim=True) / real.sum(1, keepdim=True)], 1)  # [b s+1]: and of all
    if settings.discount != 1:
        worth = worth * settings.discount ** (out.active.sum(1, keepdim=True) - 1)
    reward = worth[:, out.label_of_glimpse]  # [b t]
    counted = out.drawn & F.pad(counts, (0, 1), value=True)[:, out.label_of_glimpse]
    baseline = out.baseline.detach() + _others(reward - out.baseline.detach(), settings.rollouts)
    policy = reinforce(
        out.log_probability, reward, baseline, entropy=out.entropy, entropy_weight=settings.entropy_weight
    )
    errors = baseline_error(out.baseline, reward)
    policy, error = (term.masked_fill(~counted, 0.0).sum() for term in (policy, errors))
    total = losses + settings.reward_weight * policy + settings.baseline_weight * error
    figures |= {"reward": worth[:, -1].sum(), "baseline_error": error.detach(), "steps": out.active.sum()}
    if settings.every_weight and out.logits_per_glimpse is not None:
        every = out.logits_per_glimpse.float()
        each = labels.expand(-1, every.shape[1]).flatten()
        along = F.cross_entropy(every.flatten(0, 1), each, label_smoothing=settings.smoothing, reduction="sum")
        total = total + settings.every_weight / every.shape[1] * along
    return _mean(Loss(total, figures), settings.rollouts)


def _mean(loss: Loss, rollouts: int) -> Loss:
    if rollouts == 1:
        return loss
    return Loss(loss.total / rollouts, {name: value / rollouts for name, value in loss.figures.items()})


def _others(surprise: Float[Tensor, "b t"], rollouts: int) -> Float[Tensor, "b t"]:
    """By how much the other rollouts of a picture went better than their baselines; nothing where there are none."""
    if rollouts == 1:
        return torch.zeros_like(surprise)
    by_rollout = surprise.reshape(-1, rollouts, surprise.shape[1]).transpose(0, 1)
    return leave_one_out(by_rollout).transpose(0, 1).flatten(0, 1)


def _before_wrong(right: Bool[Tensor, "b s"]) -> Bool[Tensor, "b s"]:
    """True up to and including the first label that is wrong."""
    return F.pad((~right).cumsum(1)[:, :-1], (1, 0)) == 0

"""DT-RAM: Li, Yang, Liu, Zhou, Wen & Xu 2017, "Dynamic Computational Time for Visual Attention", arXiv 1703.10332.

RAM with one more choice after every glimpse: to stop, and answer, or to look again. All pictures of a batch are walked
over to the end; what comes after a stop does not count. After the last glimpse stopping is no choice, and has no
log-probability. In evaluation mode a model stops as soon as that is likely enough (`certainty`): more likely than not.
"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.tracing import record_path
from regard.base import check_settings
from regard.base.ranges import CERTAINTY, Certainty, Width
from regard.models.glimpse import Glimpsed
from regard.models.ram import RAM, RAMConfig

LIMIT = 10.0  # of the logit of stopping: beyond it a choice is never made again, and nothing is learnt of it


@dataclass(frozen=True)
class DTRAMConfig:
    """A RAM, whose `glimpses` are the most that are taken, and the network that decides when to stop."""

    ram: RAMConfig = field(default_factory=lambda: RAMConfig(glimpses=7))
    stop_dim: Width = 256  # width of the network that decides when to stop
    patience: float = 3.0  # stopping begins at p = sigmoid(−patience): who stops at once never learns to look
    frozen: bool = False  # train the decision only, on a RAM that can see already, as in the published script
    certainty: Certainty = 0.5  # evaluation: how likely stopping must be; more looks longer

    def __post_init__(self) -> None:
        check_settings(self, "model")


class DTRAM(nn.Module):
    """Easy pictures take few glimpses, hard ones more."""

    def __init__(self, config: DTRAMConfig) -> None:
        super().__init__()
        _odds(config.certainty)
        self.config = config
        self.ram = RAM(config.ram)
        layers = nn.Linear(config.ram.hidden_dim, config.stop_dim), nn.Linear(config.stop_dim, 1)
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        nn.init.constant_(layers[1].bias, -config.patience)
        self.stop = nn.Sequential(layers[0], nn.ReLU(), layers[1])
        if config.frozen:
            for name, parameter in self.ram.named_parameters():
                parameter.requires_grad_(name.startswith("baseline."))

    @property
    def retina(self) -> RAMConfig:
        """The settings of its retina: `size` and `scales`."""
        return self.ram.config

    @property
    def rates(self) -> dict[str, float]:
        """Shares of the learning rate: those of the RAM inside."""
        return {f"ram.{start}": share for start, share in self.ram.rates.items()}

    def forward(
        self,
        images: Float[Tensor, "b c h w"],
        *,
        sample: bool | None = None,
        where: Float[Tensor, "b t 2"] | None = None,
        certainty: float | None = None,
    ) -> Glimpsed:
        """The answer of the glimpse at which it stopped; `active` says which glimpses were taken."""
        needed = _odds(self.config.certainty if certainty is None else certainty)
        sample = self.training if sample is None else sample
        replay = self.ram.replay(images, sample=sample, where=where)
        logits = self.ram.logits(replay.hidden)  # [b t s c]
        logit = self.stop_logits(replay.hidden[:, :-1])  # [b t−1]
        stops = torch.rand_like(logit) < logit.sigmoid() if sample else logit > needed
        active = still_looking(stops.detach())
        last = active.sum(1) - 1  # [b]
        answer = logits.gather(1, last[:, None, None, None].expand(-1, 1, *logits.shape[2:])).squeeze(1)

        chosen = F.pad(active[:, :-1], (1, 0))  # a choice is made before glimpse t if glimpse t−1 was taken
        decision = F.logsigmoid(torch.where(stops, logit, -logit))
        entropy = F.softplus(logit) - logit * logit.sigmoid()
        log_stop, entropy = (F.pad(each, (1, 0)).masked_fill(~chosen, 0.0) for each in (decision, entropy))
        record_path(self, replay.where, active)
        return Glimpsed(
            logits=answer,
            where=replay.where,
            log_probability=log_stop + replay.log_probability.masked_fill(~active, 0.0),
            entropy=entropy,
            baseline=replay.baseline,
            drawn=chosen | (replay.drawn & active),
            active=active,
            label_of_glimpse=torch.full((active.shape[1],), self.config.ram.labels, device=images.device),
            logits_per_glimpse=logits.squeeze(2) if self.config.ram.labels == 1 else None,
        )

    def stop_logits(self, hidden: Float[Tensor, "b t d"]) -> Float[Tensor, "b t"]:
        """log p / (1 − p) of stopping in each state, within ±10; the states are not trained by it."""
        logits: Tensor = self.stop(hidden.detach().to(next(self.stop.parameters()).dtype))
        return logits.squeeze(-1).float().clamp(-LIMIT, LIMIT)


def _odds(certainty: float) -> float:
    """The logit that a stop needs."""
    CERTAINTY.check("certainty", certainty)
    return math.log(certainty / (1 - certainty))


def still_looking(stops: Bool[Tensor, "b n"]) -> Bool[Tensor, "b t"]:
    """Which of n + 1 glimpses are taken, if one stops for good at the first True.

    >>> still_looking(torch.tensor([[False, True, False], [False, False, False]]))
    tensor([[ True,  True, False, False],
            [ True,  True,  True,  True]])
    """
    return F.pad(stops.cumsum(1), (1, 0)) == 0


def stop_probabilities(logits: Float[Tensor, "b n"]) -> Float[Tensor, "b t"]:
    """The probability to stop at each of n + 1 glimpses: Π (1 − p) of those before, times p; at the last, the rest.

    >>> stop_probabilities(torch.zeros(1, 2))
    tensor([[0.5000, 0.2500, 0.2500]])
    """
    go_on = F.pad(F.logsigmoid(-logits).cumsum(1), (1, 0))
    return (go_on + F.pad(F.logsigmoid(logits), (0, 1))).exp()

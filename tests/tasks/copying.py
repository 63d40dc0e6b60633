"""What the tests of tasks share: a model that copies, so that every answer is known."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from regard.decode import Step
from regard.models import Translated


class State(NamedTuple):
    source: Tensor  # [n k]
    time: Tensor  # [n]


class Copier(nn.Module):
    """Writes the source word by word, sure of itself by `surety`, and looks at the word it writes."""

    def __init__(self, size: int, surety: float = 9.0) -> None:
        super().__init__()
        self.size, self.surety = size, nn.Parameter(torch.tensor(surety))

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        return source

    def init_state(self, memory: Tensor) -> State:
        return State(memory, torch.zeros(len(memory), dtype=torch.long))

    def step(self, tokens: Tensor, state: State) -> Step:
        place = state.time.clamp(max=state.source.shape[1] - 1)
        word = state.source.gather(1, place.unsqueeze(1)).squeeze(1).clamp(max=self.size - 1)
        weights = one_hot(place, state.source.shape[1]).float()
        return Step(self.surety * one_hot(word, self.size).float(), state._replace(time=state.time + 1), weights)

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> Translated:
        state, steps = self.init_state(self.encode(source, lengths)), []
        for tokens in inputs.unbind(1):
            steps.append(self.step(tokens, state))
            state = steps[-1].state
        weights = [step.weights for step in steps if step.weights is not None]
        return Translated(torch.stack([step.logits for step in steps], 1), torch.stack(weights, 1))

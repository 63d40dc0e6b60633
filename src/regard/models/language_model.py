"""What a model of running text offers: tokens and a state in, logits of the next token and the state after them out."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import ConfigError
from regard.nn import Dropout

State = Any  # a tensor [b …], or a tuple (named or not) of states; the shapes never change


class Continued(NamedTuple):
    """What a model makes of some tokens."""

    logits: Tensor  # [b t v]: of the token after each one
    state: State  # after the last of them


class LanguageModel(nn.Module):
    """Embeds tokens, reads them by `read`, and predicts the next one; the task of language modelling says more.

    A subclass defines `initial_state` and `read`. With `tied` the output has the weights of the embedding.
    """

    def __init__(self, *, vocabulary: int, embed_dim: int, hidden_dim: int, dropout: float, tied: bool) -> None:
        super().__init__()
        if tied and embed_dim != hidden_dim:
            got, cure = f"{embed_dim} and {hidden_dim}", "make them equal, or set model.tied=false"
            raise ConfigError("model.tied needs equal embed_dim and hidden_dim", got=got, cure=cure)
        self.words = nn.Embedding(vocabulary, embed_dim, padding_idx=0)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        with torch.no_grad():
            self.words.weight[:1].zero_()
        self.output = None if tied else nn.Linear(hidden_dim, vocabulary)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary)) if tied else None
        self.dropout = Dropout(dropout)

    def initial_state(self, batch: int) -> State:
        """The state before the first token of `batch` texts."""
        raise NotImplementedError

    def read(self, words: Float[Tensor, "b t e"], state: State | None) -> tuple[Float[Tensor, "b t h"], State]:
        """What the model makes of the words so far, at each word, and the state after the last."""
        raise NotImplementedError

    def forward(self, tokens: Int[Tensor, "b t"], state: State | None = None) -> Continued:
        """Logits [b t v] of the token after each of `tokens`, and the state after the last; None is the start."""
        hidden, state = self.read(self.dropout(self.words(tokens)), state)
        hidden = self.dropout(hidden)
        if self.output is not None:
            return Continued(self.output(hidden), state)
        return Continued(F.linear(hidden, self.words.weight, self.output_bias), state)

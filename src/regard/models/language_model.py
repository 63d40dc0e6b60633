"""What a model of running text offers: tokens and a state in, logits of the next token and the state after them out."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import ConfigError
from regard.data import PAD, UNK
from regard.nn import AdaptiveEmbedding, AdaptiveSoftmax, Dropout

State = Any  # a tensor [b …], or a tuple (named or not) of states; the shapes never change


class Continued(NamedTuple):
    """What a model makes of some tokens."""

    logits: Any  # of the token after each one: a tensor [b t v], or `AdaptiveLogits`, which are used like one
    state: State  # after the last of them


class LanguageModel(nn.Module):
    """Embeds tokens, reads them by `read`, and predicts the next one; the task of language modelling says more.

    A subclass defines `initial_state` and `read`. With `tied` the output has the weights of the embedding. In training
    `word_dropout` takes words out, each one at all its places in a text, and `locked` dropout the same numbers of all
    words of a text (Gal & Ghahramani 2016). Words that are taken out are zero, or <unk> where `zeroes_words` is False.
    With `cutoffs`, the numbers of the words at which clusters of rarer words begin, embedding and output are adaptive:
    see nn/adaptive.py. `self_attention_layers` is a pattern of the layers in
    which words attend to earlier words, for a trace.
    """

    self_attention_layers: str = ""
    zeroes_words: bool = True

    def __init__(
        self,
        *,
        vocabulary: int,
        embed_dim: int,
        hidden_dim: int,
        dropout: float,
        tied: bool,
        embed_dropout: float | None = None,
        output_dropout: float | None = None,
        word_dropout: float = 0.0,
        locked: bool = False,
        cutoffs: tuple[int, ...] = (),
        div_value: int = 1,
    ) -> None:
        super().__init__()
        if tied and embed_dim != hidden_dim:
            got, cure = f"{embed_dim} and {hidden_dim}", "make them equal, or set model.tied=false"
            raise ConfigError("model.tied needs equal embed_dim and hidden_dim", got=got, cure=cure)
        self.words: nn.Embedding | AdaptiveEmbedding
        self.output: nn.Linear | AdaptiveSoftmax | None
        if cutoffs:
            self.words = AdaptiveEmbedding(vocabulary, embed_dim, cutoffs=cutoffs, div_value=div_value)
            self.output = AdaptiveSoftmax(vocabulary, hidden_dim, cutoffs=cutoffs, div_value=div_value, tied=tied)
        else:
            self.words = nn.Embedding(vocabulary, embed_dim, padding_idx=0)
            nn.init.uniform_(self.words.weight, -0.1, 0.1)
            with torch.no_grad():
                self.words.weight[:1].zero_()
            self.output = None if tied else nn.Linear(hidden_dim, vocabulary)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary)) if self.output is None else None
        self.word_dropout = word_dropout
        self.dropout = Dropout(dropout if output_dropout is None else output_dropout, locked=locked)
        self.embed_dropout = Dropout(dropout if embed_dropout is None else embed_dropout, locked=locked)

    def initial_state(self, batch: int) -> State:
        """The state before the first token of `batch` texts."""
        raise NotImplementedError

    def read(self, words: Float[Tensor, "b t e"], state: State | None) -> tuple[Float[Tensor, "b t h"], State]:
        """What the model makes of the words so far, at each word, and the state after the last."""
        raise NotImplementedError

    def forward(self, tokens: Int[Tensor, "b t"], state: State | None = None) -> Continued:
        """Logits [b t v] of the token after each of `tokens`, and the state after the last; None is the start."""
        hidden, state = self.read(self.embed_dropout(self._embed(tokens)), state)
        hidden = self.dropout(hidden)
        if isinstance(self.words, AdaptiveEmbedding):
            assert isinstance(self.output, AdaptiveSoftmax)
            return Continued(self.output(hidden, self.words), state)
        if self.output is not None:
            return Continued(self.output(hidden), state)
        return Continued(F.linear(hidden, self.words.weight, self.output_bias), state)

    def _embed(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        """The words as vectors; in training some of the vocabulary are taken out, others in each text."""
        if not self.training or self.word_dropout == 0:
            return self._look_up(tokens)
        chance = torch.rand(len(tokens), self.words.num_embeddings, device=tokens.device).gather(1, tokens)
        if not self.zeroes_words:
            return self._look_up(tokens.masked_fill((chance < self.word_dropout) & (tokens != PAD), UNK))
        words = self._look_up(tokens)
        return words * ((chance >= self.word_dropout) / (1 - self.word_dropout)).to(words.dtype).unsqueeze(-1)

    def _look_up(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        words: Tensor = self.words(tokens)
        return words

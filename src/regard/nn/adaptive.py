"""Adaptive input and softmax (Grave 2017, Baevski 2019): rare words have narrower vectors, and share few products.

The vocabulary, most frequent words first, is cut into clusters: the head, and tails of rarer and rarer words. Cluster i
has vectors of the width dim / div_value^i, and where that is less than dim a projection to dim. The softmax of the head
has one more entry for each tail, so that

    log p(w) = log p_head(w)                              for a word of the head
    log p(w) = log p_head(tail i) + log p_tail_i(w)       for a word of tail i
"""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError
from regard.nn.loss import token_loss


def cluster_sizes(vocabulary: int, cutoffs: tuple[int, ...]) -> list[int]:
    """How many words each cluster has; each of `cutoffs` is the first word of the next cluster.

    >>> cluster_sizes(100, (10, 40))
    [10, 30, 60]
    """
    edges = [0, *cutoffs, vocabulary]
    if any(first >= second for first, second in itertools.pairwise(edges)):
        raise ConfigError(
            "model.cutoffs",
            got=f"{list(cutoffs)} for {vocabulary} words",
            expected="growing numbers between 0 and the size of the vocabulary",
            cure="leave model.cutoffs empty for an ordinary softmax",
        )
    return [second - first for first, second in itertools.pairwise(edges)]


def cluster_widths(dim: int, clusters: int, div_value: int) -> list[int]:
    """How wide the vectors of each cluster are: dim, dim / div_value, dim / div_value², …

    >>> cluster_widths(512, 3, 4)
    [512, 128, 32]
    """
    if div_value < 1 or dim // div_value ** (clusters - 1) < 1:
        raise ConfigError(
            "model.div_value",
            got=f"{div_value} with dim {dim} and {clusters} clusters",
            expected=f"1 to {dim}, and vectors of one number or more in every cluster",
            cure="use model.div_value=4 with few cutoffs, or 1",
        )
    return [dim // div_value**number for number in range(clusters)]


class AdaptiveEmbedding(nn.Module):
    """Word vectors [*b dim] that are made of narrower ones for rarer words, by a projection for each tail.

    Word 0 is padding: its vector is zero and does not learn.
    """

    def __init__(self, vocabulary: int, dim: int, *, cutoffs: tuple[int, ...], div_value: int = 1) -> None:
        super().__init__()
        self.sizes = cluster_sizes(vocabulary, cutoffs)
        widths = cluster_widths(dim, len(self.sizes), div_value)
        self.num_embeddings, self.dim, self.cutoffs = vocabulary, dim, cutoffs
        self.tables = nn.ModuleList(
            nn.Embedding(size, width, padding_idx=None if number else 0)
            for number, (size, width) in enumerate(zip(self.sizes, widths, strict=True))
        )
        self.projections = nn.ModuleList(
            nn.Linear(width, dim, bias=False) if width < dim else nn.Identity() for width in widths[1:]
        )
        for weight in self.weights():
            nn.init.uniform_(weight, -0.1, 0.1)
        with torch.no_grad():
            self.weights()[0][:1].zero_()

    def forward(self, tokens: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vectors of these words. Every cluster is asked for every place, so that nothing waits for the device."""
        first = 0
        words: Tensor | None = None
        for number, (table, size) in enumerate(zip(self.tables, self.sizes, strict=True)):
            inside = (tokens >= first) & (tokens < first + size)
            rows = table((tokens - first).masked_fill(~inside, 0))
            rows = self.projections[number - 1](rows) if number else rows
            rows = rows.masked_fill(~inside.unsqueeze(-1), 0.0)
            words = rows if words is None else words + rows
            first += size
        assert words is not None
        return words

    def weights(self) -> list[Tensor]:
        """The vectors of the words of each cluster [n w], before their projection."""
        return [table.weight for table in self.tables if isinstance(table, nn.Embedding)]

    def extra_repr(self) -> str:
        """The size of each cluster."""
        return f"{self.num_embeddings}, {self.dim}, clusters={self.sizes}"


class AdaptiveSoftmax(nn.Module):
    """Predicts words from hidden states [*b dim]. With `tied` the words and projections of an embedding serve here too.

    With `div_value` above 1 it is parametrised as `torch.nn.AdaptiveLogSoftmaxWithLoss` with a bias in the head is.
    """

    def __init__(
        self, vocabulary: int, dim: int, *, cutoffs: tuple[int, ...], div_value: int = 1, tied: bool = False
    ) -> None:
        super().__init__()
        self.sizes, self.tied = cluster_sizes(vocabulary, cutoffs), tied
        widths = cluster_widths(dim, len(self.sizes), div_value)
        self.to_tails = nn.Parameter(torch.empty(len(cutoffs), dim).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(self.sizes[0] + len(cutoffs)))
        own = [] if tied else list(zip(self.sizes, widths, strict=True))
        self.weights = nn.ParameterList(torch.empty(size, width).uniform_(-0.1, 0.1) for size, width in own)
        self.projections = nn.ModuleList(
            nn.Linear(dim, width, bias=False) if width < dim else nn.Identity() for _, width in own[1:]
        )

    def forward(self, hidden: Float[Tensor, "*b d"], words: AdaptiveEmbedding | None = None) -> "AdaptiveLogits":
        """What is predicted, not yet spelt out. `words` is the embedding that a tied softmax has its weights from."""
        if self.tied:
            if words is None:
                raise ConfigError("a tied AdaptiveSoftmax", got="no embedding", cure="call it with hidden and words")
            weights = words.weights()
            projections = [each.weight.mT if isinstance(each, nn.Linear) else None for each in words.projections]
        else:
            weights = list(self.weights)
            projections = [each.weight if isinstance(each, nn.Linear) else None for each in self.projections]
        head = torch.cat([weights[0], self.to_tails])
        return AdaptiveLogits(hidden, head, self.bias, projections, weights[1:])


class AdaptiveLogits:
    """A prediction over clusters. Losses are computed from it without a number for every word of the vocabulary.

    Indexing it, as in `logits[:, -1]`, gives the log-probabilities of all words at these places.
    """

    def __init__(
        self, hidden: Tensor, head: Tensor, bias: Tensor, projections: list[Tensor | None], tails: list[Tensor]
    ) -> None:
        self.hidden, self.head, self.bias, self.projections, self.tails = hidden, head, bias, projections, tails

    def __getitem__(self, index: Any) -> Tensor:
        """The log-probabilities [… v] of all words at some places."""
        return AdaptiveLogits(self.hidden[index], self.head, self.bias, self.projections, self.tails).log_probs()

    def log_probs(self) -> Float[Tensor, "*b v"]:
        """The log-probabilities of all words, in float32 or better."""
        head = _log_softmax(F.linear(self.hidden, self.head, self.bias))
        first = self.head.shape[0] - len(self.tails)
        blocks = [head[..., :first]]
        for number in range(len(self.tails)):
            blocks.append(head[..., first + number, None] + _log_softmax(self._tail(number, self.hidden)))
        return torch.cat(blocks, -1)

    def losses(self, targets: Int[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        """−log p of each target. Of a tail only the places are computed whose target is in it.

        Finding them makes the host wait for the device; while a CUDA graph is captured, which cannot wait, every tail
        is computed at every place.
        """
        if targets.shape != self.hidden.shape[:-1]:
            raise ShapeError("targets of an adaptive softmax", got=targets.shape, expected=self.hidden.shape[:-1])
        hidden, flat = self.hidden.flatten(0, -2), targets.flatten()
        first = self.head.shape[0] - len(self.tails)
        entry, start = flat, first
        inside_tails = []
        for number, tail in enumerate(self.tails):
            inside = (flat >= start) & (flat < start + len(tail))
            entry = torch.where(inside, first + number, entry)
            inside_tails.append((inside, flat - start))
            start += len(tail)
        losses = _cross_entropy(F.linear(hidden, self.head, self.bias), entry)
        everywhere = hidden.is_cuda and torch.cuda.is_current_stream_capturing()
        for number, (inside, word) in enumerate(inside_tails):
            if everywhere:
                more = _cross_entropy(self._tail(number, hidden), word.masked_fill(~inside, 0))
                losses = losses + more.masked_fill(~inside, 0.0)
            else:
                places = inside.nonzero().squeeze(1)
                more = _cross_entropy(self._tail(number, hidden[places]), word[places])
                losses = losses.index_add(0, places, more)
        return losses.view_as(targets)

    def _tail(self, number: int, hidden: Tensor) -> Tensor:
        """Logits over the words of a tail."""
        projection = self.projections[number]
        return F.linear(hidden if projection is None else F.linear(hidden, projection), self.tails[number])


def predicted_losses(
    logits: Tensor | AdaptiveLogits, targets: Int[Tensor, "*b"], *, ignore: int = 0
) -> Float[Tensor, "*b"]:
    """−log p of each target in float32 or better, and 0 where the target is `ignore`."""
    if isinstance(logits, AdaptiveLogits):
        return logits.losses(targets).masked_fill(targets == ignore, 0.0)
    losses = _cross_entropy(logits.flatten(0, -2), targets.flatten())
    return losses.view_as(targets).masked_fill(targets == ignore, 0.0)


def predicted_loss(
    logits: Tensor | AdaptiveLogits, targets: Int[Tensor, "*b"], *, ignore: int = 0
) -> Float[Tensor, ""]:
    """The sum of `predicted_losses`, by `token_loss` where there is a logit for each word."""
    if isinstance(logits, AdaptiveLogits):
        return predicted_losses(logits, targets, ignore=ignore).sum()
    return token_loss(logits, targets, ignore=ignore)


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(wide, targets, reduction="none")

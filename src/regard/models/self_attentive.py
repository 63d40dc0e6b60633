"""A structured self-attentive sentence embedding (Lin et al. 2017): a text becomes a matrix, one row for each hop.

H = BiLSTM(words)                            [n 2u]    (1)–(4)
A = softmax(W_s2 tanh(W_s1 Hᵀ))              [r n]     (6), softmax over the words: each row sums to 1
M = A H                                      [r 2u]    (7)
P = ‖A Aᵀ − I‖²_F                                      (8), small when hops look at single and different words

In the words of this library: r learnt queries W_s2 attend to the keys tanh(W_s1 H) by their dot product, and the values
are H. Pairs of texts (section 4.3) share one encoder; each hop of both texts is multiplied by its own matrix.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.base import check_settings
from regard.base.ranges import Count, Few, Range, Share, UpToOne, Vocabulary, Weight, Width
from regard.nn import Bidirectional, Dropout, Neighbours, WordEmbedding, build_attention, padding
from regard.nn.attentions import check_names

Sides = Annotated[int, Range(least=1, most=2)]
Units = Annotated[int, Range(least=0, most=2**16)]


class TextClassified(NamedTuple):
    """A batch of texts, or of pairs: the logits of c classes, and what the model adds to the loss of each."""

    logits: Tensor  # [b 1 c]
    penalty: Tensor | None = None  # [b]: weighted already; None: nothing is added


@dataclass(frozen=True)
class SelfAttentiveConfig:
    """Sizes as the paper has them for reviews: u = 300, d_a = 350, r = 30, 3,000 hidden units."""

    vocabulary: Vocabulary = 0  # words; the data decide
    classes: Count = 2  # how many; the data decide
    texts: Sides = 1  # of an example: 2 for pairs; the data decide
    embed_dim: Width = 100  # width of word vectors; that of task.vectors, where there are some
    hidden_dim: Width = 300  # u, of the LSTM in each direction
    pooling: Literal["attention", "max", "mean"] = "attention"  # what makes a text of its words; the others are twins
    attention_dim: Width = 350  # d_a
    hops: Few = 30  # r
    score: str = "dot"  # of the hops' queries and tanh(W_s1 H), of SCORES; dot is the paper's
    align: str = "softmax"  # of ALIGNS
    max_words: Count = 1000  # score=location: texts have at most so many
    penalty: Weight = 1.0  # of ‖AAᵀ − I‖²_F in the loss
    pair: Literal["gated", "features"] = "gated"  # pairs: F_p ∘ F_h as published, or [p; h; |p − h|; p ∘ h]
    gate_dim: Width = 150  # pairs, gated: width of F, what each hop's own matrix makes of its row
    classifier: Literal["dense", "pruned"] = "dense"  # the hidden layer sees all of M, or is pruned (appendix A)
    mlp_dim: Width = 3000  # dense: hidden units
    row_units: Units = 25  # pruned: hidden units of each row of M (p)
    column_units: Units = 5  # pruned: hidden units of each column of M (q)
    embed_dropout: Share = 0.0  # of word vectors
    word_dropout: Share = 0.0  # of words, which become unknown in training
    weight_dropout: Share = 0.0  # of the LSTM's weights from h to the gates, in training
    dropout: Share = 0.5  # of M, and of the hidden layer
    embed_rate: UpToOne = 1.0  # share of the learning rate for word vectors; 0 keeps them as they begin
    language: Weight = 0.0  # of the loss by which states predict the words beside them, in training
    language_places: Count = 100  # of each text where they do

    def __post_init__(self) -> None:
        check_settings(self, "model")
        check_names(self.score, self.align)


class SelfAttentive(nn.Module):
    """A text in, classes out; `embed` gives the matrix of a text, and the weights of its hops.

    `words` is the table of word vectors, which a task may fill with those that others have trained. `hop_layers` names
    the layer whose weights [text hop word] are the hops, as a pattern for a trace; for twins it matches nothing.
    """

    answers = ("classifier.", "attention.", "to_keys.", "queries", "pair.", "neighbours.")  # what is above the words

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.config = config
        self.rates = {"words.": config.embed_rate}
        self.words = WordEmbedding(
            config.vocabulary, config.embed_dim, word_dropout=config.word_dropout, dropout=config.embed_dropout
        )
        self.encoder = Bidirectional(
            config.embed_dim, config.hidden_dim, kind=nn.LSTM, weight_dropout=config.weight_dropout
        )
        width, self.hop_layers = 2 * config.hidden_dim, ""
        rows = config.hops if config.pooling == "attention" else 1
        if config.pooling == "attention":
            self.hop_layers = "attention"
            self.to_keys = nn.Linear(width, config.attention_dim, bias=False)  # W_s1
            bound = config.attention_dim**-0.5
            self.queries = nn.Parameter(torch.empty(rows, config.attention_dim).uniform_(-bound, bound))  # W_s2
            self.attention = build_attention(
                config.score, config.align, query_dim=config.attention_dim, key_dim=config.attention_dim,
                hidden_dim=config.attention_dim, max_keys=config.max_words,
            )  # fmt: skip
        if config.texts == 2:
            self.pair = Gated(rows, width, config.gate_dim) if config.pair == "gated" else Features()
            width = config.gate_dim if config.pair == "gated" else 4 * width
        self.neighbours = None
        if config.language > 0:
            self.neighbours = Neighbours(
                config.vocabulary, config.hidden_dim, config.embed_dim, places=config.language_places,
                dropout=config.dropout,
            )  # fmt: skip
        kind = PrunedClassifier if config.classifier == "pruned" else DenseClassifier
        self.classifier = kind(rows, width, config)

    def forward(self, texts: Int[Tensor, "b s k"], lengths: Int[Tensor, "b s"]) -> TextClassified:
        """Logits [b 1 c] of b texts, or of b pairs."""
        flat, counts = texts.flatten(0, 1), lengths.flatten()
        states = self.encoder(self.words(flat), counts)  # H
        matrix, weights = self._pool(states, counts)
        sides = matrix.reshape(*texts.shape[:2], *matrix.shape[1:]).unbind(1)  # of s sides, M [b r 2u]
        joined = sides[0] if len(sides) == 1 else self.pair(*sides)
        penalty = None
        if weights is not None and self.config.penalty > 0:
            penalty = self.config.penalty * hop_penalty(weights).view(texts.shape[:2]).sum(1)
        if self.neighbours is not None and self.training:
            nats = self.neighbours(states, flat, counts, self.words.weight).view(texts.shape[:2]).sum(1)
            penalty = self.config.language * nats + (0.0 if penalty is None else penalty)
        return TextClassified(self.classifier(joined).unsqueeze(1), penalty)

    def embed(
        self, texts: Int[Tensor, "n k"], lengths: Int[Tensor, " n"]
    ) -> tuple[Float[Tensor, "n r d"], Float[Tensor, "n r k"] | None]:
        """M of each text, and the weights A of its hops over its words; a twin has one row and no weights."""
        return self._pool(self.encoder(self.words(texts), lengths), lengths)

    def _pool(
        self, states: Float[Tensor, "n k d"], lengths: Int[Tensor, " n"]
    ) -> tuple[Float[Tensor, "n r d"], Float[Tensor, "n r k"] | None]:
        """M and A of the states H of some texts."""
        if self.config.pooling == "attention":
            keys = torch.tanh(self.to_keys(states))  # tanh(W_s1 Hᵀ)
            queries = self.queries.to(keys.dtype).expand(states.shape[0], -1, -1)
            mask, seen = Mask.padding(lengths), self.config.penalty > 0
            out = self.attention(queries, keys, states, mask=mask, need_weights=seen)  # A = softmax(W_s2 …), M = A H
            return out.context, out.weights
        if self.config.pooling == "max":
            empty = padding(states, lengths)
            largest = states.masked_fill(empty, -torch.inf).amax(1, keepdim=True)
            return largest.masked_fill(empty.all(1, keepdim=True), 0.0), None  # a text without words
        return states.sum(1, keepdim=True) / lengths.clamp(min=1).view(-1, 1, 1).to(states.dtype), None


def hop_penalty(weights: Float[Tensor, "*b r k"]) -> Float[Tensor, "*b"]:
    """P = ‖A Aᵀ − I‖²_F of each text: 0 if every hop looks at one word and no two at the same one.

    >>> hop_penalty(torch.tensor([[1.0, 0.0], [0.0, 1.0]])), hop_penalty(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    (tensor(0.), tensor(2.))
    """
    wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
    with torch.autocast(weights.device.type, enabled=False):
        overlap = wide @ wide.mT  # A Aᵀ: [r r], of hops
    unit = torch.eye(weights.shape[-2], dtype=overlap.dtype, device=overlap.device)
    return (overlap - unit).square().sum((-2, -1))


class Gated(nn.Module):
    """F_p ∘ F_h of two texts, with F_p = batcheddot(M_p, W_fp): row i of a text is multiplied by its own matrix i."""

    def __init__(self, rows: int, width: int, gate_dim: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.first = nn.Parameter(torch.empty(rows, width, gate_dim).uniform_(-bound, bound))  # W_fp
        self.second = nn.Parameter(torch.empty(rows, width, gate_dim).uniform_(-bound, bound))  # W_fh

    def forward(self, first: Float[Tensor, "b r d"], second: Float[Tensor, "b r d"]) -> Float[Tensor, "b r f"]:
        """What both texts have in common, hop by hop."""
        return batched_dot(first, self.first) * batched_dot(second, self.second)


def batched_dot(matrix: Float[Tensor, "b r d"], weight: Float[Tensor, "r d f"]) -> Float[Tensor, "b r f"]:
    """Row i of each M times matrix i."""
    return torch.einsum("brd,rdf->brf", matrix, weight)


class Features(nn.Module):
    """[p; h; |p − h|; p ∘ h], row by row: how other sentence encoders compare two texts (Mou et al. 2016)."""

    def forward(self, first: Float[Tensor, "b r d"], second: Float[Tensor, "b r d"]) -> Float[Tensor, "b r e"]:
        """Four features side by side [b r 4d]."""
        return torch.cat([first, second, (first - second).abs(), first * second], -1)


class DenseClassifier(nn.Module):
    """A hidden layer of rectified units on all of M, then the classes."""

    def __init__(self, rows: int, width: int, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(rows * width, config.mlp_dim)
        self.output = nn.Linear(config.mlp_dim, config.classes)
        self.dropout = Dropout(config.dropout)

    def forward(self, matrix: Float[Tensor, "b r d"]) -> Float[Tensor, "b c"]:
        """Computes the logits of the classes from the matrix of a text, or of a pair."""
        hidden = torch.relu(self.hidden(self.dropout(matrix.flatten(1))))
        logits: Tensor = self.output(self.dropout(hidden))
        return logits


class PrunedClassifier(nn.Module):
    """The hidden layer pruned (appendix A): each row of M has p units of its own, each column q units of its own.

    That are r·2u·p + 2u·r·q weights in place of r·2u·b.
    """

    def __init__(self, rows: int, width: int, config: SelfAttentiveConfig) -> None:
        super().__init__()
        per_row, per_column = config.row_units, config.column_units
        row_bound, column_bound = width**-0.5, rows**-0.5
        self.of_rows = nn.Parameter(torch.empty(rows, width, per_row).uniform_(-row_bound, row_bound))
        self.of_columns = nn.Parameter(torch.empty(width, rows, per_column).uniform_(-column_bound, column_bound))
        self.bias = nn.Parameter(torch.zeros(rows * per_row + width * per_column))
        self.output = nn.Linear(len(self.bias), config.classes)
        self.dropout = Dropout(config.dropout)

    def forward(self, matrix: Float[Tensor, "b r d"]) -> Float[Tensor, "b c"]:
        """Computes the logits of the classes from the matrix of a text, or of a pair."""
        matrix = self.dropout(matrix)
        by_row = batched_dot(matrix, self.of_rows).flatten(1)
        by_column = batched_dot(matrix.mT, self.of_columns).flatten(1)
        hidden = torch.relu(torch.cat([by_row, by_column], 1) + self.bias.to(by_row.dtype))
        logits: Tensor = self.output(self.dropout(hidden))
        return logits


def self_attentive_reviews() -> SelfAttentiveConfig:
    """The paper's sizes for Yelp."""
    return SelfAttentiveConfig()


def self_attentive_pairs() -> SelfAttentiveConfig:
    """The paper's sizes for SNLI: d_a = 150, penalty 0.3, 4,000 hidden units, no dropout."""
    return SelfAttentiveConfig(
        classes=3, texts=2, embed_dim=300, attention_dim=150, penalty=0.3, mlp_dim=4000, dropout=0.0
    )

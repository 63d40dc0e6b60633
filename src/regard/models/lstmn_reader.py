"""LSTMN as a classifier of texts and of pairs (Cheng, Dong & Lapata 2016, sections 5.2 and 5.3, arXiv 1601.06733).

h_1 … h_n = LSTMN(words)                                          (4)–(9)
z = mean_t h_t                                                    a text; of a pair [z_first; z_second]
logits = W_3 relu(W_2 relu(W_1 z))                                two rectified layers, then the classes

Of a pair, each text has an LSTMN of its own. That of the second text may attend to the tapes of the first one, by
shallow or by deep fusion: equations (10) to (15), which `regard.models.lstmn` has.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import check_settings
from regard.base.ranges import Count, Few, Range, Share, UpToOne, Vocabulary, Width
from regard.models.lstmn import LSTMN, TapesFused, TapesRead, stack_lstmn
from regard.models.self_attentive import TextClassified
from regard.nn import Dropout, WordEmbedding
from regard.nn.attentions import check_names

Sides = Annotated[int, Range(least=1, most=2)]
Tapes = TapesRead | TapesFused


@dataclass(frozen=True)
class LSTMNReaderConfig:
    """Sizes of the paper's middle model for SNLI: 300 units, word vectors of 300 numbers."""

    vocabulary: Vocabulary = 0  # words; the data decide
    classes: Count = 2  # how many; the data decide
    texts: Sides = 1  # of an example: 2 for pairs; the data decide
    embed_dim: Width = 300  # width of word vectors; that of task.vectors, where there are some
    hidden_dim: Width = 300  # of h and c
    align_dim: Width = 300  # inside of the additive scores
    layers: Few = 1  # LSTMNs, one above the other
    fusion: Literal["none", "shallow", "deep"] = "deep"  # pairs: how the second text attends to the first one
    score: str = "additive"  # of a word and the words before it, of SCORES
    align: str = "softmax"  # of ALIGNS
    inter_score: str = "additive"  # pairs: of a word and the words of the first text, of SCORES
    inter_align: str = "softmax"  # pairs: of ALIGNS
    tape: Few = 100  # how many words back it can attend
    max_words: Count = 200  # inter_score=location: first texts have at most so many
    mlp_dim: Width = 300  # of both rectified layers
    embed_dropout: Share = 0.0  # of word vectors
    word_dropout: Share = 0.0  # of words, which become unknown in training
    dropout: Share = 0.5  # of h between the layers, of the mean, and of the last rectified layer
    embed_rate: UpToOne = 1.0  # share of the learning rate for word vectors; 0 keeps them as they begin

    def __post_init__(self) -> None:
        check_settings(self, "model")
        check_names(self.score, self.align)
        check_names(self.inter_score, self.inter_align, prefix="inter_")


class LSTMNReader(nn.Module):
    """A text in, or a pair; classes out. `read` gives the tapes of every layer and text.

    `words` is the table of word vectors, which a task may fill with those that others have trained. `layer_sides` says
    which text the queries of a traced layer are the words of, and which text its keys.
    """

    answers = ("classifier.output.",)  # layers that depend on the question alone
    layer_sides: ClassVar[dict[str, tuple[int, int]]] = {
        "first.*.attention": (0, 0),
        "second.*.attention": (1, 1),
        "second.*.inter_attention": (1, 0),
    }

    def __init__(self, config: LSTMNReaderConfig) -> None:
        super().__init__()
        self.config = config
        self.rates = {"words.": config.embed_rate}
        self.words = WordEmbedding(
            config.vocabulary, config.embed_dim, word_dropout=config.word_dropout, dropout=config.embed_dropout
        )
        self.first = _layers(config, "none")
        if config.texts == 2:
            self.second = _layers(config, config.fusion)
        self.classifier = RectifiedClassifier(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, texts: Int[Tensor, "b s k"], lengths: Int[Tensor, "b s"]) -> TextClassified:
        """Logits [b 1 c] of b texts, or of b pairs."""
        means = [
            layers[-1].hidden.sum(1) / lengths[:, side].clamp(min=1).unsqueeze(1).to(layers[-1].hidden.dtype)
            for side, layers in enumerate(self.read(texts, lengths))
        ]
        return TextClassified(self.classifier(torch.cat(means, -1)).unsqueeze(1))

    def read(self, texts: Int[Tensor, "b s k"], lengths: Int[Tensor, "b s"]) -> list[list[Tapes]]:
        """The tapes of each text, layer by layer; layer k + 1 reads h^k and, by a skip connection, the words."""
        words = self.words(texts).unbind(1)
        first = self._stack(self.first, words[0], lengths[:, 0], None)
        if self.config.texts == 1:
            return [first]
        return [first, self._stack(self.second, words[1], lengths[:, 1], (first, lengths[:, 0]))]

    def _stack(
        self,
        layers: nn.ModuleList,
        words: Float[Tensor, "b k e"],
        lengths: Int[Tensor, " b"],
        source: tuple[list[Tapes], Int[Tensor, " b"]] | None,
    ) -> list[Tapes]:
        """The tapes of all layers for one text; layer k may attend to the tapes of layer k of the source."""
        tapes: list[Tapes] = []
        for number, layer in enumerate(layers):
            assert isinstance(layer, LSTMN)
            x = words if number == 0 else torch.cat([words, self.dropout(tapes[-1].hidden)], -1)
            if layer.fusion == "none":
                tapes.append(layer(x, lengths=lengths))
            else:
                assert source is not None
                below = source[0][number]
                prepared = layer.source_tapes(below.hidden, below.memory, source[1])
                tapes.append(layer.fused(x, prepared, lengths=lengths))
        return tapes


class RectifiedClassifier(nn.Module):
    """Two layers of rectified units, then the classes."""

    def __init__(self, config: LSTMNReaderConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(config.texts * config.hidden_dim, config.mlp_dim)
        self.deeper = nn.Linear(config.mlp_dim, config.mlp_dim)
        self.output = nn.Linear(config.mlp_dim, config.classes)
        self.dropout = Dropout(config.dropout)

    def forward(self, mean: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        """Computes the logits of the classes from the mean of a text, or from both means of a pair."""
        hidden = torch.relu(self.deeper(torch.relu(self.hidden(self.dropout(mean)))))
        logits: Tensor = self.output(self.dropout(hidden))
        return logits


def _layers(config: LSTMNReaderConfig, fusion: Literal["none", "shallow", "deep"]) -> nn.ModuleList:
    """Builds the LSTMNs that read one text."""
    return stack_lstmn(
        config.layers,
        config.embed_dim,
        config.hidden_dim,
        align_dim=config.align_dim,
        score=config.score,
        align=config.align,
        tape=config.tape,
        fusion=fusion,
        inter_score=config.inter_score,
        inter_align=config.inter_align,
        max_source=config.max_words,
    )


def lstmn_sentiment() -> LSTMNReaderConfig:
    """The paper's sizes for SST: 168 units; one or two layers."""
    return LSTMNReaderConfig(hidden_dim=168, align_dim=168, mlp_dim=168)


def lstmn_pairs() -> LSTMNReaderConfig:
    """The paper's best for SNLI: 450 units, deep fusion."""
    return LSTMNReaderConfig(classes=3, texts=2, hidden_dim=450, align_dim=450, mlp_dim=450)

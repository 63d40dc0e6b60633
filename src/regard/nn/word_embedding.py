"""The table of word vectors of models that read texts, with what training leaves out of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data import PAD, UNK
from regard.nn.dropout import Dropout


class WordEmbedding(nn.Embedding):
    """`nn.Embedding` of words whose vectors begin as N(0, 0.3²), as large as those of GloVe; padding has zeros.

    In training `word_dropout` makes a share of the words unknown, and `dropout` sets a share of the vectors' numbers to
    zero.
    """

    def __init__(self, vocabulary: int, width: int, *, word_dropout: float = 0.0, dropout: float = 0.0) -> None:
        super().__init__(vocabulary, width, padding_idx=PAD)
        nn.init.normal_(self.weight, std=0.3)
        with torch.no_grad():
            self.weight[PAD] = 0.0
        self.word_dropout, self.dropout = word_dropout, Dropout(dropout)

    def forward(self, texts: Int[Tensor, "*n k"]) -> Float[Tensor, "*n k d"]:
        """Looks up the vectors of the words."""
        if self.training and self.word_dropout > 0:
            dropped = torch.rand(texts.shape, device=texts.device) < self.word_dropout
            texts = texts.masked_fill(dropped & (texts != PAD), UNK)
        vectors: Tensor = self.dropout(super().forward(texts))
        return vectors

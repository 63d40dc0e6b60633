"""Words that predict their neighbours: a reader of texts learns the language from texts alone, without labels.

In each direction an LSTM knows the words on one side. The forward state of a word predicts the word after it, and the
backward state of that one predicts the word before: two language models in one reader (as in Dai & Le 2015 and in
Peters et al. 2018), whose output has the word vectors themselves as weights.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.nn.dropout import Dropout


class Neighbours(nn.Module):
    """−log p of neighbouring words at `places` places of each text, which are drawn anew at every call.

    `width` is that of the states in each direction, and `embed_dim` that of the word vectors.
    """

    def __init__(self, vocabulary: int, width: int, embed_dim: int, *, places: int, dropout: float) -> None:
        super().__init__()
        self.places, self.dropout = places, Dropout(dropout)
        self.to_words = nn.ModuleList(nn.Linear(width, embed_dim) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self,
        states: Float[Tensor, "n k d"],
        texts: Int[Tensor, "n k"],
        lengths: Int[Tensor, " n"],
        vectors: Float[Tensor, "v e"],
    ) -> Float[Tensor, " n"]:
        """For each text the mean over its places, for both directions together; 0 for a text of one word.

        The first half of the numbers of `states` has read the text forwards, and the second half backwards.
        """
        pairs = (lengths - 1).clamp(min=0)  # of neighbours
        chance = torch.rand(len(texts), self.places, device=texts.device)
        first = (chance * pairs.unsqueeze(1)).long()  # the first word of each pair that is drawn
        second = (first + 1).clamp(max=texts.shape[1] - 1)
        sides = states.chunk(2, -1)
        total = states.new_zeros(len(texts), dtype=torch.promote_types(states.dtype, torch.float32))
        for side, layer, read, told in zip(sides, self.to_words, (first, second), (second, first), strict=True):
            here = side.gather(1, read.unsqueeze(-1).expand(-1, -1, side.shape[-1]))
            logits = F.linear(layer(self.dropout(here)), vectors, self.bias)
            wide = logits.to(total.dtype).flatten(0, 1)
            nats = F.cross_entropy(wide, texts.gather(1, told).flatten(), reduction="none")
            total = total + nats.view(len(texts), -1).mean(1)
        return total.masked_fill(pairs == 0, 0.0)

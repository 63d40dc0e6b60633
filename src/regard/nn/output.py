"""The deep output of the first attention models: one maxout layer between state and softmax."""

from jaxtyping import Float
from torch import Tensor, nn


class DeepOutput(nn.Module):
    """t̃ = U s + V e + C c, t_j = max(t̃_2j−1, t̃_2j), logits = W t (Bahdanau 2015, A.2.2; Cho 2014).

    s is the decoder's state, e the embedding of the word before, c the context.
    """

    def __init__(self, state_dim: int, embed_dim: int, context_dim: int, *, maxout_dim: int, vocabulary: int) -> None:
        super().__init__()
        self.from_state = nn.Linear(state_dim, 2 * maxout_dim)  # U
        self.from_word = nn.Linear(embed_dim, 2 * maxout_dim, bias=False)  # V
        self.from_context = nn.Linear(context_dim, 2 * maxout_dim, bias=False)  # C
        self.to_logits = nn.Linear(maxout_dim, vocabulary)  # W

    def forward(
        self, state: Float[Tensor, "*b s"], word: Float[Tensor, "*b e"], context: Float[Tensor, "*b c"]
    ) -> Float[Tensor, "*b v"]:
        """Logits over the vocabulary."""
        pairs = self.from_state(state) + self.from_word(word) + self.from_context(context)
        logits: Tensor = self.to_logits(pairs.view(*pairs.shape[:-1], -1, 2).amax(-1))
        return logits

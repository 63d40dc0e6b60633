"""The content score of the Neural Turing Machine (Graves 2014): cosine similarity, sharpened by a key strength β."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.base import ConfigError
from regard.kernels import reasons_against_triton
from regard.kernels.derivatives import transformed
from regard.score.score import DotForm, Prepared, Score, check_same_width, product, to_float32

DTYPES, WIDEST = (torch.float32, torch.bfloat16, torch.float16), 4096  # of the kernel for rows of length one


def _unit(x: Tensor) -> Tensor:
    """x / |x|, whatever the scale of x, in float32 or better; zero, with zero gradient, for a zero vector."""
    if x.shape[-1] == 0:
        return x
    if _has_kernel(x):
        from regard.kernels.unit import unit_rows

        unit: Tensor = unit_rows(x)
        return unit
    full = to_float32(x)
    peak = full.detach().abs().amax(-1, keepdim=True)
    zero = peak == 0
    full = full / peak.masked_fill(zero, 1.0)  # its squares neither overflow nor vanish
    norm = full.masked_fill(zero, 1.0).square().sum(-1, keepdim=True).sqrt()
    return (full / norm).masked_fill(zero, 0.0).to(x.dtype)


def _has_kernel(x: Tensor) -> bool:
    if not x.is_cuda or x.dtype not in DTYPES or x.shape[-1] > WIDEST:
        return False
    return not reasons_against_triton(x.device) and not transformed()


def cosine(
    query: Float[Tensor, "*#b q d"], keys: Float[Tensor, "*#b k d"], strength: float | Tensor = 1.0
) -> Float[Tensor, "*#b q k"]:
    """e_ij = β · q_i·k_j / (|q_i| |k_j|); 0 for a zero vector.

    With β = 1 the scores lie in [−1, 1], so softmax cannot focus: over ten keys no weight exceeds 0.451.

    >>> query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [-1.0, 0.5], [0.0, 1.0]])
    >>> cosine(query, keys).round(decimals=4)
    tensor([[0.9839, 0.0000, 0.8944]])
    """
    return product((_unit(query) * strength).to(query.dtype), _unit(keys))


class Cosine(Score):
    """e_ij = β · cos(q_i, k_j). β is a number, learnt (`learned=True`) or not, or a tensor that broadcasts to [*b q 1].

    A controller that emits β at each step builds `Cosine(strength=beta)` on the spot: the module holds nothing else.
    """

    strength: Tensor | float

    def __init__(self, strength: float | Tensor = 1.0, *, learned: bool = False) -> None:
        super().__init__()
        if learned and isinstance(strength, Tensor) and strength.ndim > 0:
            raise ConfigError("Cosine strength to learn", got=list(strength.shape), expected="one number")
        if learned:
            self.strength = nn.Parameter(torch.as_tensor(float(strength)))
        elif isinstance(strength, Tensor):
            self.register_buffer("strength", strength, persistent=False)
        else:
            self.strength = strength

    @classmethod
    def for_widths(cls, query_dim: int, key_dim: int, *, hidden_dim: int, max_keys: int) -> Score:
        """With a learnt key strength that starts at 8, since at 1 it cannot focus."""
        return cls._projected_where_widths_differ(query_dim, key_dim, hidden_dim, lambda width: cls(8.0, learned=True))

    def prepare(self, keys: Tensor) -> Prepared:
        """Keys of length one."""
        return Prepared(_unit(keys))

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores of queries against prepared keys."""
        form = self.as_dot(query, keys)
        scores = product(form.query, form.keys)
        return scores if form.scale == 1.0 else scores * form.scale

    def as_dot(self, query: Tensor, keys: Tensor) -> DotForm:
        """Both sides have length one; β is the scale, or where it is a tensor a factor of the query."""
        check_same_width("Cosine", query, keys)
        if isinstance(self.strength, Tensor):
            return DotForm((_unit(query) * self.strength).to(query.dtype), keys, 1.0)
        return DotForm(_unit(query), keys, float(self.strength))

    def extra_repr(self) -> str:
        """β, where it is a plain number."""
        return f"strength={self.strength}" if not isinstance(self.strength, Tensor) else "strength=tensor"

"""Over what an alignment reduces: the keys of a row, in a matrix of all pairs or in an edge list.

`Rows` reduces scores [*b q k] over their last axis, `Segments` reduces scores [*b e] over the edges of each query. The
two have the same methods, so an alignment is written once and gives equal weights in both forms.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Rows:
    """The form of a matrix: the keys of a query are its row."""

    @staticmethod
    def sums(x: Tensor) -> Tensor:
        """The sum of each row, [*b q]."""
        return x.sum(-1)

    @staticmethod
    def total(x: Tensor) -> Tensor:
        """The sum of each row, shaped to meet its members."""
        return x.sum(-1, keepdim=True)

    @staticmethod
    def largest(x: Tensor) -> Tensor:
        """The largest number of each row, without gradient, shaped to meet its members."""
        return x.amax(-1, keepdim=True).detach()

    @staticmethod
    def zeros(x: Tensor) -> Tensor:
        """Zero for each row, shaped to meet its members."""
        return torch.zeros_like(x[..., :1])

    @staticmethod
    def size(x: Tensor) -> int | Tensor:
        """How many members each row has, masked ones too."""
        return x.shape[-1]

    @staticmethod
    def softmax(x: Tensor) -> Tensor:
        """exp(x) over its sum in each row."""
        return x.softmax(-1)

    @staticmethod
    def log_softmax(x: Tensor) -> Tensor:
        """The logarithm of the softmax."""
        return x.log_softmax(-1)

    @staticmethod
    def first_largest(x: Tensor) -> Tensor:
        """1 at the largest number of each row (the first of equal ones), 0 elsewhere."""
        return torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), 1.0)

    @staticmethod
    def best(x: Tensor, k: int) -> Tensor:
        """True at the k largest numbers of each row."""
        indices = x.topk(min(k, x.shape[-1]), dim=-1).indices
        return torch.zeros_like(x, dtype=torch.bool).scatter(-1, indices, True)

    @staticmethod
    def simplex_support(z: Tensor) -> Tensor:
        """True where the projection of each row onto the simplex is more than zero; the largest z must be 0."""
        ordered = z.sort(-1, descending=True).values
        sums = ordered.cumsum(-1)
        count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        size = (1 + count * ordered > sums).sum(-1, keepdim=True)
        return z > (sums.gather(-1, (size - 1).clamp(min=0)) - 1) / size


ROWS = Rows()


class Segments(NamedTuple):
    """The form of an edge list: edge e belongs to the row `rows[e]`, in any order; there are `num_rows` of them.

    >>> Segments(torch.tensor([0, 2, 0]), 3).sums(torch.tensor([1.0, 5.0, 2.0]))
    tensor([3., 0., 5.])
    """

    rows: Tensor  # [e]
    num_rows: int

    def sums(self, x: Tensor) -> Tensor:
        """The sum of each row, [*b q]; 0 for a row without edges."""
        x = x.long() if x.dtype == torch.bool else x
        return x.new_zeros(*x.shape[:-1], self.num_rows).index_add(-1, self.rows, x)

    def total(self, x: Tensor) -> Tensor:
        """For each edge, the sum of its row."""
        return self.spread(self.sums(x))

    def largest(self, x: Tensor) -> Tensor:
        """For each edge, the largest number of its row, without gradient."""
        x = x.detach()
        lowest = x.new_full((*x.shape[:-1], self.num_rows), torch.finfo(x.dtype).min)
        return self.spread(lowest.scatter_reduce(-1, self.rows.expand(x.shape), x, "amax"))

    def zeros(self, x: Tensor) -> Tensor:
        """Zero for each edge."""
        return torch.zeros_like(x)

    def size(self, x: Tensor) -> Tensor:
        """For each edge, how many edges its row has."""
        return self.total(torch.ones_like(self.rows)).to(x.dtype)

    def softmax(self, x: Tensor) -> Tensor:
        """exp(x) over its sum in each row."""
        exponentials = (x - self.largest(x)).exp()
        return exponentials / self.total(exponentials)

    def log_softmax(self, x: Tensor) -> Tensor:
        """The logarithm of the softmax."""
        shifted = x - self.largest(x)
        return shifted - self.total(shifted.exp()).log()

    def first_largest(self, x: Tensor) -> Tensor:
        """1 at the largest number of each row (the first of equal ones), 0 elsewhere."""
        place = torch.arange(x.shape[-1], device=x.device).expand(x.shape)
        candidates = place.masked_fill(x < self.largest(x), x.shape[-1])
        first = candidates.new_full((*x.shape[:-1], self.num_rows), x.shape[-1])
        first = first.scatter_reduce(-1, self.rows.expand(x.shape), candidates, "amin")
        return (self.spread(first) == place).to(x.dtype)

    def best(self, x: Tensor, k: int) -> Tensor:
        """True at the k largest numbers of each row, the first of equal ones."""
        order, place = self._order(x)
        return torch.zeros_like(x, dtype=torch.bool).scatter(-1, order, (place < k).expand(x.shape))

    def simplex_support(self, z: Tensor) -> Tensor:
        """True where the projection of each row onto the simplex is more than zero; the largest z must be 0."""
        order, place = self._order(z)
        ordered = z.gather(-1, order)
        sums, step = ordered, 1
        while step < z.shape[-1]:  # sums of 1, 2, 4 … neighbours, which never leave their row
            before = F.pad(sums[..., :-step], (step, 0))
            sums, step = sums + torch.where(place >= step, before, 0.0), 2 * step
        inside = 1 + (place + 1) * ordered > sums
        return torch.zeros_like(inside).scatter(-1, order, inside)

    def spread(self, x: Tensor) -> Tensor:
        """For each edge, the number of its row: [*b q] → [*b e]."""
        return x.index_select(-1, self.rows)

    def _order(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The edges [*b e] row by row, each row from its largest number down, and the place [e] in the row from 0."""
        by_score = x.detach().sort(dim=-1, descending=True, stable=True).indices
        by_row = self.rows[by_score].sort(dim=-1, stable=True).indices
        ordered_rows = self.rows.sort().values
        sizes = self.sums(torch.ones_like(self.rows))
        starts = sizes.cumsum(0) - sizes
        place = torch.arange(x.shape[-1], device=x.device) - starts.index_select(0, ordered_rows)
        return by_score.gather(-1, by_row), place

"""Video Action Transformer network: Girdhar, Carreira, Doersch & Zisserman 2019, arXiv 1812.02707.

For every person, whose box in the middle frame is known, one query looks at the whole clip: what others do there may
decide what the person does. The trunk makes a map X [t h w d] of the clip, and each layer of the head is a Tx unit:

Q = QPr(pool(X_T/2, box))                            one query for a box, from the middle slice of the map (section 3.2)
a_xyt = Q · K_xyt / √D                               K = X W_k, at every cell of the map                    (1)
A = Σ_xyt softmax(a)_xyt V_xyt                       V = X W_v                                              (2)
Q′ = LayerNorm(Q + Dropout(A))                                                                              (3)
Q″ = LayerNorm(Q′ + Dropout(FFN(Q′)))                                                                       (4)

In the words of this library: boxes are queries, cells are keys and values, and (1) and (2) are `MultiHead`, with any
score and any alignment. Boxes do not see each other; what one person knows of another comes from the map alone.

Twins: `head="roi"` classifies the query itself, without attention; `head="i3d"` is the paper's base head, the trunk's
later convolutions on the box at all times; `locations="none"` leaves the location embedding out.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.base import ConfigError, ShapeError, check_settings
from regard.base.ranges import Count, Few, Natural, Share, Width
from regard.nn import Dropout, FeedForward, build_attention
from regard.nn.attentions import check_names
from regard.nn.roi import pool_boxes


class Acted(NamedTuple):
    """What each person of a clip does."""

    logits: Tensor  # [b r c]
    grid: tuple[int, int, int]  # times, rows and columns of the map that a query sees: its cells in this order


@dataclass(frozen=True)
class VideoActionConfig:
    """Sizes for small clips: 16 frames of 32 to 64 pixels. The paper's head has 2 heads × 3 layers of width 128."""

    channels: Natural = 0  # of a pixel: 1 grey, 3 coloured; the data decide
    classes: Natural = 0  # labels; the data decide
    members: Count = 1  # networks side by side, each with its own weights: one for each fold; the data decide
    trunk: tuple[Width, ...] = (24, 48, 96)  # channels of the 3-D convolutions; the first two halve the sides
    head: Literal["tx", "roi", "i3d"] = "tx"  # attention over the clip; the box alone; convolutions on the box
    query: Literal["high", "low"] = "high"  # the cells of a box side by side, with their layout, or their mean
    locations: Literal["absolute", "relative", "none"] = "absolute"  # of cells: in the frame, or as seen from the box
    location_dim: Width = 16  # of each embedding: of the place in the frame, and of the time
    roi_size: Few = 4  # bins along each side of a box; the paper has 7
    dim: Width = 128  # of a query, D
    heads: Few = 2  # of each layer
    layers: Few = 3  # of Tx units
    hidden_dim: Width = 256  # of the FFN
    score: str = "scaled_dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    max_cells: Count = 4096  # score=location: a map has at most so many cells
    dropout: Share = 0.3  # in a Tx unit, and before the classifier
    trunk_dropout: Share = 0.0  # of whole channels of the map

    def __post_init__(self) -> None:
        check_settings(self, "model")
        check_names(self.score, self.align)
        if not self.trunk:
            raise ConfigError("model.trunk", got="no channels", expected="one number for each convolution, 24,48,96")


def video_action_paper() -> VideoActionConfig:
    """The head of the paper: 2 heads × 3 layers of width 128, RoI of 7 × 7, query with its layout, dropout 0.3."""
    return VideoActionConfig(roi_size=7, dim=128, heads=2, layers=3, dropout=0.3)


class Trunk(nn.Module):
    """3-D convolutions of 3 × 3 × 3: the first halves height and width, the second the time as well.

    The middle of the clip lies in the slice number t // 2 of the map, as frame number t // 2 does in the clip.
    """

    def __init__(self, channels: int, widths: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        strides = [(1, 2, 2), (2, 2, 2), *[(1, 1, 1)] * len(widths)]
        self.layers = nn.ModuleList()
        for width, stride in zip(widths, strides, strict=False):
            self.layers.append(convolution(channels, width, stride))
            channels = width
        self.dropout = nn.Dropout3d(dropout)

    def forward(self, clips: Float[Tensor, "b c t h w"]) -> Float[Tensor, "b t2 h2 w2 d"]:
        """The map of each clip, channels last."""
        features = clips
        for layer in self.layers:
            features = layer(features)
        return self.dropout(features).permute(0, 2, 3, 4, 1)  # type: ignore[no-any-return]


class ChannelsLast(nn.Conv3d):
    """A 3-D convolution that computes with the channels last, which is four times as fast on a CPU.

    Its weights are kept as usual, so that a file of them is like any other. Few channels are faster in the usual order.
    """

    def forward(self, x: Float[Tensor, "b c t h w"]) -> Float[Tensor, "b d t2 h2 w2"]:
        """Convolves clips x with the weights; both are laid out with the channels last where that is faster."""
        last = torch.channels_last_3d if self.in_channels >= 8 else torch.contiguous_format
        clips, weight = x.contiguous(memory_format=last), self.weight.contiguous(memory_format=last)
        return F.conv3d(clips, weight, stride=self.stride, padding=self.padding)


def convolution(channels: int, width: int, stride: tuple[int, int, int] = (1, 1, 1)) -> nn.Sequential:
    """A 3-D convolution with normalised batches and a ReLU."""
    layer = ChannelsLast(channels, width, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(layer, nn.BatchNorm3d(width), nn.ReLU())


class Locations(nn.Module):
    """Where and when a cell is: two small networks, one for row and column, one for the time (section 3.2)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.place, self.time = _embedding(2, dim), _embedding(1, dim)

    def forward(self, coordinates: Float[Tensor, "*b k 3"]) -> Float[Tensor, "*b k e"]:
        """Embeddings of (time, row, column)."""
        own = coordinates.to(next(self.parameters()).dtype)
        return torch.cat([self.place(own[..., 1:]), self.time(own[..., :1])], -1)


def _embedding(inputs: int, dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))


def cell_coordinates(grid: tuple[int, int, int], device: torch.device | None = None) -> Float[Tensor, "k 3"]:
    """Time, row and column of every cell, from −1 to 1: the middles of the cells, the last axis first.

    >>> cell_coordinates((1, 1, 2))
    tensor([[ 0.0000,  0.0000, -0.5000],
            [ 0.0000,  0.0000,  0.5000]])
    """
    axes = [(2 * torch.arange(size, device=device) + 1) / size - 1 for size in grid]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 2)


class QueryPreprocessor(nn.Module):
    """QPr: the features inside of a box → one query.

    "high" makes each cell narrow by a 1 × 1 convolution and lays the cells side by side, so that the layout of the
    box is kept; "low" averages the cells. Both end with a linear layer.
    """

    def __init__(self, in_dim: int, config: VideoActionConfig) -> None:
        super().__init__()
        cells = config.roi_size**2
        narrow = max(1, 2 * config.dim // cells)
        self.narrow = nn.Linear(in_dim, narrow) if config.query == "high" else None
        self.project = nn.Linear(cells * narrow if config.query == "high" else in_dim, config.dim)

    def forward(self, pooled: Float[Tensor, "b r i j d"]) -> Float[Tensor, "b r e"]:
        """One query for each box."""
        cells = pooled.flatten(2, 3)
        query: Tensor = self.project(
            cells.mean(2) if self.narrow is None else torch.relu(self.narrow(cells)).flatten(2)
        )
        return query


class TxUnit(nn.Module):
    """One layer of the head: each query looks at all cells of the map (eqs. 1–4).

    Every head has the width D of a query, as in the paper, where heads are units of their own; here what the heads
    bring is joined by one projection before it is added.
    """

    def __init__(self, key_dim: int, config: VideoActionConfig) -> None:
        super().__init__()
        dim = config.dim
        attention = build_attention(config.score, config.align, query_dim=dim, key_dim=dim, hidden_dim=dim,
                                    max_keys=config.max_cells)  # fmt: skip
        self.attention = MultiHead(dim, num_heads=config.heads, head_dim=dim, key_dim=key_dim, attention=attention)
        self.feed_forward = FeedForward(dim, config.hidden_dim)
        self.norm, self.last_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, query: Float[Tensor, "*b q d"], cells: Float[Tensor, "*b k e"], mask: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "*b q d"]:
        """Queries that know more of the clip."""
        attended = self.attention(query, cells, mask=mask).context
        query = self.norm(query + self.dropout(attended))
        updated: Tensor = self.last_norm(query + self.dropout(self.feed_forward(query)))
        return updated


class TxHead(nn.Module):
    """A query for each box, layers of Tx units over the whole map, and a classifier; without layers, the RoI head."""

    def __init__(self, in_dim: int, config: VideoActionConfig, *, layers: int) -> None:
        super().__init__()
        self.config = config
        self.locations = Locations(config.location_dim) if layers and config.locations != "none" else None
        added = 0 if self.locations is None else 2 * config.location_dim
        self.to_query = QueryPreprocessor(in_dim + added * (config.locations == "absolute"), config)
        self.layers = nn.ModuleList(TxUnit(in_dim + added, config) for _ in range(layers))
        self.dropout, self.classify = Dropout(config.dropout), nn.Linear(config.dim, config.classes)

    def forward(
        self,
        features: Float[Tensor, "b t h w d"],
        boxes: Float[Tensor, "b r 4"],
        mask: Bool[Tensor, "b t h w"] | None = None,
    ) -> Float[Tensor, "b r c"]:
        """Logits of each box; `mask` says which cells may be seen, where not all of them may."""
        grid = (features.shape[1], features.shape[2], features.shape[3])
        relative = self.config.locations == "relative" and self.locations is not None
        if self.locations is not None and not relative:  # the same for all boxes: the query gets them by pooling
            places = self.locations(cell_coordinates(grid, features.device)).to(features.dtype)
            places = places.view(1, *grid, -1).expand(len(features), -1, -1, -1, -1)
            features = torch.cat([features, places], -1)
        middle = features[:, grid[0] // 2 : grid[0] // 2 + 1]  # the slice in which the boxes are
        query = self.to_query(pool_boxes(middle, boxes, self.config.roi_size).squeeze(2))
        query = torch.relu(query) if not self.layers else query
        cells, seen = features.flatten(1, 3), None if mask is None else mask.flatten(1)[:, None]
        if relative:  # each box sees the map from where it is: [b r 1 d] beside [b r k e]
            cells = self._as_seen(cells, boxes, grid)
            query, seen = query.unsqueeze(2), None if seen is None else seen[:, None]
        for layer in self.layers:
            query = layer(query, cells, seen)
        logits: Tensor = self.classify(self.dropout(query.squeeze(2) if relative else query))
        return logits

    def _as_seen(self, cells: Tensor, boxes: Tensor, grid: tuple[int, int, int]) -> Float[Tensor, "b r k e"]:
        """Every cell with its way from the middle of each box."""
        assert self.locations is not None
        across, down = boxes[..., 0] + boxes[..., 2] - 1, boxes[..., 1] + boxes[..., 3] - 1  # middles, −1 to 1
        origin = torch.stack([torch.zeros_like(down), down, across], -1).unsqueeze(2)  # [b r 1 3]
        places = self.locations(cell_coordinates(grid, cells.device) - origin).to(cells.dtype)
        return torch.cat([cells.unsqueeze(1).expand(-1, boxes.shape[1], -1, -1), places], -1)


class I3DHead(nn.Module):
    """The paper's base head: the box is cut out at all times, and goes through two more convolutions."""

    def __init__(self, in_dim: int, config: VideoActionConfig) -> None:
        super().__init__()
        self.roi_size = config.roi_size
        self.layers = nn.Sequential(convolution(in_dim, config.dim), convolution(config.dim, config.dim))
        self.dropout, self.classify = Dropout(config.dropout), nn.Linear(config.dim, config.classes)

    def forward(self, features: Float[Tensor, "b t h w d"], boxes: Float[Tensor, "b r 4"]) -> Float[Tensor, "b r c"]:
        """Gives the logits for the person in each of the r boxes, from what lies inside of the box at all times."""
        tubes = pool_boxes(features, boxes, self.roi_size)  # [b r t i j d]
        convolved = self.layers(tubes.flatten(0, 1).permute(0, 4, 1, 2, 3))
        pooled = convolved.mean((2, 3, 4)).unflatten(0, boxes.shape[:2])
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits


class ActionNetwork(nn.Module):
    """Trunk and head: a clip and the boxes of its persons in, logits for each person out."""

    def __init__(self, config: VideoActionConfig) -> None:
        super().__init__()
        self.trunk = Trunk(config.channels, config.trunk, config.trunk_dropout)
        in_dim = config.trunk[-1]
        self.head: TxHead | I3DHead = (
            I3DHead(in_dim, config) if config.head == "i3d"
            else TxHead(in_dim, config, layers=config.layers if config.head == "tx" else 0)
        )  # fmt: skip

    def forward(self, clips: Float[Tensor, "b c t h w"], boxes: Float[Tensor, "b r 4"]) -> Acted:
        """Logits of each box, and the sizes of the map."""
        features = self.trunk(clips)
        return Acted(self.head(features, boxes), (features.shape[1], features.shape[2], features.shape[3]))


class VideoAction(nn.Module):
    """One network, or several side by side, such as one for each person that is left out."""

    def __init__(self, config: VideoActionConfig) -> None:
        super().__init__()
        self.config = config
        self.members = nn.ModuleList(ActionNetwork(config) for _ in range(config.members))

    def forward(
        self, clips: Float[Tensor, "b c t h w"], boxes: Float[Tensor, "b r 4"], member: int | None = None
    ) -> Acted:
        """What each person does: by the network number `member`, or the mean of all networks' logits.

        `clips` are 0 to 1, `boxes` left, top, right and bottom in the middle frame, as shares of width and height.
        """
        if clips.ndim != 5 or clips.shape[1] != self.config.channels:
            expected = f"[b {self.config.channels} t h w]"
            cure = "pass clips with the channels that the model was built for"
            raise ShapeError("clips", got=list(clips.shape), expected=expected, cure=cure)
        chosen = range(len(self.members)) if member is None else (member,)
        acted = [self.members[number](clips, boxes) for number in chosen]
        if len(acted) == 1:
            return acted[0]  # type: ignore[no-any-return]
        return Acted(torch.stack([each.logits for each in acted]).mean(0), acted[0].grid)

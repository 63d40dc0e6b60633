"""Image Transformer (Parmar et al. 2018, arXiv 1802.05751): pictures, symbol after symbol, by local attention.

p(x) = Π_t p(x_t | x_<t), where t runs over pixels in raster order, or block by block, and inside a pixel over red,
green and blue. Each place gets the symbol before it and its own position; layers of local self-attention and
feed-forward layers then say how likely each value is there:

    q_a = layernorm(q + dropout(softmax(W_q q (W_k M)ᵀ / √d) W_v M))        (1), M is the memory block of q
    q′  = layernorm(q_a + dropout(W₁ relu(W₂ q_a)))                         (2)

Outputs are a softmax over the values of one channel ("categorical": each channel of a pixel is a place), or a mixture
of discretised logistics for all channels of a pixel ("logistics": each pixel is a place). An encoder with full
self-attention reads a small picture for super-resolution; a class is an embedding that is added at every place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.align import ALIGNS
from regard.attention import (
    Attention,
    Local,
    Local1D,
    Local2D,
    LocalSelfAttention,
    Memory,
    MultiHead,
    PlaceCache,
    sinusoid,
)
from regard.base import ConfigError, ShapeError, check_settings
from regard.base.ranges import Count, Few, Margin, Natural, OneOf, Range, Share, Width
from regard.kernels.derivatives import without_autocast
from regard.nn import (
    Dropout,
    EncoderLayer,
    FeedForward,
    Residual,
    build_attention,
    logistic_mixture_log_prob,
    mixture_width,
    sample_logistic_mixture,
)
from regard.nn.attentions import check_names
from regard.score import SCORES

OUTPUTS = ("categorical", "logistics")
Levels = Annotated[int, Range(least=2, most=256)]
Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ImageTransformerConfig:
    """Sizes, blocks and the distribution of an Image Transformer; defaults are those of the paper's CIFAR-10 models."""

    image_size: Natural = 0  # height and width in pixels; the data decide
    channels: Natural = 0  # 1 for grey, 3 for colours; the data decide
    classes: Natural = 0  # of pictures; the data decide, and only class_conditional uses it
    levels: Levels = 256  # values of a channel
    output: Annotated[str, OneOf(OUTPUTS)] = "categorical"  # a softmax a channel, or a mixture of logistics a pixel
    mixtures: Few = 10  # components, for output=logistics
    dim: Width = 512  # width of the model
    num_heads: Few = 8  # heads of attention
    hidden_dim: Width = 2048  # width inside the feed-forward layers
    layers: Few = 12  # of the decoder
    local: Annotated[str, OneOf(("1d", "2d"))] = "1d"  # blocks are places in a row, or rectangles of pixels
    query_block: Count = 256  # 1d: places of a query block
    memory_block: Natural = 256  # 1d: places before it that it sees as well
    block_size: tuple[Few, Few] = (8, 8)  # 2d: rows and columns of a query block, in pixels
    memory_size: tuple[Margin, Margin] = (8, 4)  # 2d: rows above it and columns on either side, in pixels
    by_mask: bool = False  # local attention through a dense mask: the same results in quadratic cost
    position: Annotated[str, OneOf(("sinusoidal", "learned"))] = "sinusoidal"  # one half for rows, one for columns
    class_conditional: bool = False  # whether the class of a picture is known
    small_size: Natural = 0  # super-resolution: side of the small picture that is known; 0: nothing is known
    encoder_layers: Few = 4  # super-resolution: layers that read the small picture
    dropout: Share = 0.1  # share of the numbers that are set to zero in training
    attention_dropout: Share = 0.0  # share of the weights of attention that are set to zero in training
    pre_norm: bool = False  # whether norms come before the layers, not after
    score: str = "scaled_dot"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS

    def __post_init__(self) -> None:
        check_settings(self, "model")
        if self.small_size and self.image_size and self.image_size % self.small_size:
            got = f"{self.small_size} for pictures of {self.image_size}"
            raise ConfigError("model.small_size", got=got, expected=f"a number that divides {self.image_size}")

    @property
    def places(self) -> int:
        """How many places a picture has."""
        return self.image_size**2 * (self.channels if self.output == "categorical" else 1)


def image_transformer_cifar10() -> ImageTransformerConfig:
    """The categorical model of the published code: 12 layers, width 512, 4 heads, blocks of 256, dropout 0.3."""
    return ImageTransformerConfig(num_heads=4, dropout=0.3)


def image_transformer_cifar10_dmol() -> ImageTransformerConfig:
    """The model with mixtures of logistics of the published code: 12 layers, width 256, 8 heads, dropout 0.1."""
    return ImageTransformerConfig(output="logistics", dim=256, num_heads=8, hidden_dim=512, position="learned")


class Condition(NamedTuple):
    """What is known of a picture beforehand."""

    added: Tensor | None  # [b 1 d]: the embedding of its class
    memories: tuple[Memory | None, ...]  # the small picture, projected for each layer


class ImageTransformerLayer(nn.Module):
    """Local self-attention, attention to the small picture if there is one, then feed-forward: (1) and (2)."""

    def __init__(self, config: ImageTransformerConfig, local: Local) -> None:
        super().__init__()
        dim, heads = config.dim, config.num_heads
        self.inner = LocalSelfAttention(
            dim, num_heads=heads, local=local, attention=_attention(config), by_mask=config.by_mask
        )
        self.cross = MultiHead(dim, num_heads=heads, attention=_attention(config)) if config.small_size else None
        self.feed = FeedForward(dim, config.hidden_dim, dropout=config.dropout)
        self.around_inner, self.around_feed = _residual(config), _residual(config)
        self.around_cross = None if self.cross is None else _residual(config)

    def forward(
        self, x: Float[Tensor, "b n d"], memory: Memory | None, cache: PlaceCache | None = None, place: int = 0
    ) -> Float[Tensor, "b n d"]:
        """All places at once; with a cache, the one place of this number."""
        inside: Tensor = self.around_inner.enter(x)
        x = self.around_inner.leave(x, self.inner(inside) if cache is None else self.inner.step(inside, cache, place))
        if self.cross is not None and self.around_cross is not None:
            x = self.around_cross.leave(x, self.cross(self.around_cross.enter(x), memory).context)
        result: Tensor = self.around_feed.leave(x, self.feed(self.around_feed.enter(x)))
        return result


class ImageTransformer(nn.Module):
    """How likely each value of each place of a picture is, given the places before it; and pictures drawn from that."""

    attention_layers = "layers.*.inner.inner"
    shards: ClassVar[dict[str, tuple[str, ...]]] = {"encoder.*": (), "layers.*": (), "layers.*.cross": ("prepare",)}
    order: Tensor
    back: Tensor
    first_ids: Tensor

    def __init__(self, config: ImageTransformerConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.local, order = _local(config)
        self.register_buffer("order", order, persistent=False)  # place → number in the raster
        self.register_buffer("back", order.argsort(), persistent=False)
        self.register_buffer("first_ids", config.levels * torch.arange(config.channels), persistent=False)
        self.symbols = nn.Embedding(config.channels * config.levels, config.dim)  # 3 × 256 of them
        nn.init.normal_(self.symbols.weight, std=config.dim**-0.5)
        self.start = nn.Parameter(torch.randn(config.dim) * config.dim**-0.5)
        self.position = _Position(config, config.image_size, config.channels if _is_categorical(config) else 1)
        self.kinds = nn.Embedding(config.classes, config.dim) if config.class_conditional else None
        self.small_position = _Position(config, config.small_size, 1) if config.small_size else None
        self.encoder = nn.ModuleList(
            EncoderLayer(
                config.dim, num_heads=config.num_heads, hidden_dim=config.hidden_dim, attention=_attention(config),
                dropout=config.dropout, pre_norm=config.pre_norm,
            )
            for _ in range(config.encoder_layers if config.small_size else 0)
        )  # fmt: skip
        self.layers = nn.ModuleList(ImageTransformerLayer(config, self.local) for _ in range(config.layers))
        self.dropout = Dropout(config.dropout)
        self.encoder_norm, self.last_norm = (
            nn.LayerNorm(config.dim) if config.pre_norm and used else nn.Identity()
            for used in (bool(config.small_size), True)
        )
        self.to_output = self._output_layer()

    # ── likelihood ──────────────────────────────────────────────────────────────────────────────────────────────────

    def forward(
        self,
        images: Shaped[Tensor, "b c h w"],
        classes: Int[Tensor, " b"] | None = None,
        small: Shaped[Tensor, "b c r r"] | None = None,
    ) -> Float[Tensor, "b n"]:
        """−log p of what is at each place, in nats, in the order of generation; their sum is that of the picture.

        Pictures are whole numbers below `levels`. `classes` are for a class-conditional model, `small` for one that
        knows a small picture.
        """
        values = self.values_of(images)
        return self._nats(self.outputs(values, self.condition(classes, small, len(images))), values)

    def outputs(self, values: Int[Tensor, "b n s"], condition: Condition) -> Float[Tensor, "b n p"]:
        """Logits of values, or parameters of mixtures, at all places of pictures that are known."""
        x = self._inputs(values, condition)
        for layer, memory in zip(self.layers, condition.memories, strict=True):
            x = layer(x, memory)
        return self._last(x)

    def values_of(self, images: Shaped[Tensor, "b c h w"]) -> Int[Tensor, "b n s"]:
        """The values at each place, in the order of generation: one channel, or all channels of a pixel."""
        config = self.config
        wanted = [config.channels, config.image_size, config.image_size]
        if list(images.shape[1:]) != wanted:
            raise ShapeError("pictures for this model", got=list(images.shape), expected=["b", *wanted])
        pixels = images.permute(0, 2, 3, 1).long()  # channels inside a pixel
        places = pixels.flatten(1).unsqueeze(-1) if _is_categorical(config) else pixels.flatten(1, 2)
        return places.index_select(1, self.order)

    def images_of(self, values: Int[Tensor, "b n s"]) -> Int[Tensor, "b c h w"]:
        """The pictures whose places have these values: the inverse of `values_of`."""
        side = self.config.image_size
        return values.index_select(1, self.back).reshape(len(values), side, side, -1).permute(0, 3, 1, 2)

    def condition(self, classes: Tensor | None, small: Tensor | None, batch: int) -> Condition:
        """What is known beforehand, ready for the layers."""
        config = self.config
        if (classes is None) == config.class_conditional or (small is None) == bool(config.small_size):
            got = f"classes: {classes is not None}, small picture: {small is not None}"
            expected = f"classes: {config.class_conditional}, small picture: {bool(config.small_size)}"
            raise ConfigError("what this Image Transformer is told of a picture", got=got, expected=expected)
        added = None if self.kinds is None or classes is None else self.kinds(classes).unsqueeze(1)
        if small is None or self.small_position is None:
            return Condition(added, (None,) * config.layers)
        wanted = [batch, config.channels, config.small_size, config.small_size]
        if list(small.shape) != wanted:
            raise ShapeError("small pictures for this model", got=list(small.shape), expected=wanted)
        ids = small.flatten(2).mT.long() + self.first_ids
        embedded = self.symbols(ids).sum(-2)
        x = self.dropout(math.sqrt(config.dim) * embedded + self.small_position().to(embedded.dtype))
        for layer in self.encoder:
            x = layer(x)
        x = self.encoder_norm(x)
        memories = [layer.cross.prepare(x) for layer in self._layers() if layer.cross is not None]
        return Condition(added, tuple(memories))

    def _inputs(self, values: Tensor, condition: Condition) -> Tensor:
        """For each place the symbol before it, in the order of generation, and its own position: shifted by one."""
        embedded = self._embedded(values[:, :-1], torch.arange(values.shape[1] - 1, device=values.device))
        start = self.start.expand(len(values), 1, -1).to(embedded.dtype)
        x = torch.cat([start, embedded], 1) * math.sqrt(self.config.dim) + self.position(self.order).to(embedded.dtype)
        x = x if condition.added is None else x + math.sqrt(self.config.dim) * condition.added
        shown: Tensor = self.dropout(x)
        return shown

    def _embedded(self, values: Tensor, places: Tensor) -> Tensor:
        """Embeddings [b n d] of the symbols at these places: of one channel, or summed over the channels of a pixel."""
        if _is_categorical(self.config):
            first = self.first_ids[self.order[places] % self.config.channels].unsqueeze(-1)
        else:
            first = self.first_ids
        embedded: Tensor = self.symbols(values + first).sum(-2)
        return embedded

    def _last(self, x: Tensor) -> Tensor:
        """Logits of values, or parameters of mixtures: these in float32 or better, since a bin is 1/128 wide."""
        x = self.last_norm(x)
        if _is_categorical(self.config):
            logits: Tensor = self.to_output(x)
            return logits
        dtype = torch.promote_types(x.dtype, torch.float32)
        with without_autocast(x.device):
            return F.linear(x.to(dtype), self.to_output.weight.to(dtype), self.to_output.bias.to(dtype))

    def _nats(self, outputs: Tensor, values: Tensor) -> Tensor:
        if _is_categorical(self.config):
            logits = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
            losses = F.cross_entropy(logits.flatten(0, 1), values.flatten(), reduction="none")
            return losses.view(values.shape[:2])
        return -logistic_mixture_log_prob(outputs, values, levels=self.config.levels)

    # ── generation ──────────────────────────────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def generate(
        self,
        batch: int,
        *,
        classes: Int[Tensor, " b"] | None = None,
        small: Shaped[Tensor, "b c r r"] | None = None,
        images: Shaped[Tensor, "b c h w"] | None = None,
        known: int = 0,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
        cached: bool = True,
        progress: Step | None = None,
    ) -> Int[Tensor, "b c h w"]:
        """Draws pictures, place after place. The first `known` places are taken from `images`, and the rest is drawn.

        Keys and values of earlier places are kept; with `cached=False` every place computes all of them anew, for
        comparison. `temperature` below 1 makes likely values likelier.
        """
        config, condition = self.config, self.condition(classes, small, batch)
        given = None if images is None else self.values_of(images)
        channels = 1 if _is_categorical(config) else config.channels
        values = torch.zeros(batch, config.places, channels, dtype=torch.long, device=self.order.device)
        caches = [layer.inner.empty_cache(batch, config.places) for layer in self._layers()]
        for place in range(config.places):
            if cached:
                outputs = self._step(values, place, caches, condition)
            elif place >= known:
                outputs = self.outputs(values, condition)[:, place]
            if given is not None and place < known:
                values[:, place] = given[:, place]
            else:
                values[:, place] = self._draw(outputs, temperature, generator)
            if progress is not None and (place + 1) % 64 == 0:
                progress("places", place + 1, config.places)
        return self.images_of(values)

    def _step(self, values: Tensor, place: int, caches: list[PlaceCache], condition: Condition) -> Tensor:
        """Outputs [b p] at one place; the caches take it in."""
        if place == 0:
            x = self.start.expand(len(values), 1, -1)
        else:
            before = torch.tensor([place - 1], device=values.device)
            x = self._embedded(values[:, place - 1 : place], before)
        x = x * math.sqrt(self.config.dim) + self.position(self.order[place : place + 1]).to(x.dtype)
        x = x if condition.added is None else x + math.sqrt(self.config.dim) * condition.added
        x = self.dropout(x)
        for layer, cache, memory in zip(self._layers(), caches, condition.memories, strict=True):
            x = layer(x, memory, cache, place)
        return self._last(x).squeeze(1)

    def _draw(self, outputs: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
        """Values [b c] at one place."""
        if _is_categorical(self.config):
            chances = (outputs.float() / temperature).softmax(-1)
            return torch.multinomial(chances, 1, generator=generator)
        return sample_logistic_mixture(
            outputs, self.config.channels, levels=self.config.levels, temperature=temperature, generator=generator
        )

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _output_layer(self) -> nn.Linear:
        config = self.config
        if _is_categorical(config):
            layer = nn.Linear(config.dim, config.levels)
            nn.init.normal_(layer.weight, std=0.1 * config.dim**-0.5)
            nn.init.zeros_(layer.bias)
            return layer
        layer = nn.Linear(config.dim, mixture_width(config.channels, config.mixtures))
        nn.init.normal_(layer.weight, std=0.1 * config.dim**-0.5)
        with torch.no_grad():  # components begin side by side, each a few bins wide
            bias = layer.bias.zero_().view(config.mixtures, -1)
            bias[:, 1 : 1 + config.channels] = torch.linspace(-0.9, 0.9, config.mixtures).unsqueeze(-1)
            bias[:, 1 + config.channels : 1 + 2 * config.channels] = -2.0
        return layer

    def _layers(self) -> list[ImageTransformerLayer]:
        return [layer for layer in self.layers if isinstance(layer, ImageTransformerLayer)]


class _Position(nn.Module):
    """Vectors [n d] of the places of a raster: one half says the row, the other the column and the channel."""

    table: Tensor

    def __init__(self, config: ImageTransformerConfig, side: int, channels: int) -> None:
        super().__init__()
        half, columns = config.dim // 2, side * channels
        self.learned = config.position == "learned"
        if self.learned:
            self.rows, self.columns = (nn.Parameter(torch.randn(count, half)) for count in (side, columns))
        else:
            rows, across = (sinusoid(torch.arange(count).float(), half) for count in (side, columns))
            self.register_buffer("table", _raster(rows, across), persistent=False)

    def forward(self, order: Tensor | None = None) -> Float[Tensor, "n d"]:
        """The vectors, row by row, or in another order."""
        table = _raster(self.rows, self.columns) if self.learned else self.table
        return table if order is None else table[order]


def _raster(rows: Tensor, columns: Tensor) -> Tensor:
    """For each row and column the vectors of both, side by side: [r d], [c e] → [(r c) (d + e)]."""
    sides = rows.unsqueeze(1).expand(-1, len(columns), -1), columns.unsqueeze(0).expand(len(rows), -1, -1)
    return torch.cat(sides, -1).flatten(0, 1)


def _local(config: ImageTransformerConfig) -> tuple[Local, Tensor]:
    """Which places see which, and the numbers in the raster of the places in the order of generation."""
    if config.local == "1d":
        return Local1D(config.query_block, config.memory_block), torch.arange(config.places)
    inside = config.channels if _is_categorical(config) else 1  # places of a pixel, side by side
    (high, wide), (above, beside) = config.block_size, config.memory_size
    side = config.image_size
    local = Local2D((side, side * inside), (high, wide * inside), (above, beside * inside))
    return local, local.order()


def _attention(config: ImageTransformerConfig) -> Attention:
    width = config.dim // config.num_heads
    return build_attention(
        config.score, config.align, query_dim=width, key_dim=width, hidden_dim=width, dropout=config.attention_dropout
    )


def _residual(config: ImageTransformerConfig) -> Residual:
    return Residual(config.dim, dropout=config.dropout, pre_norm=config.pre_norm)


def _is_categorical(config: ImageTransformerConfig) -> bool:
    return config.output == "categorical"


def _check(config: ImageTransformerConfig) -> None:
    check_names(config.score, config.align)
    score, align = SCORES[config.score], ALIGNS[config.align]
    if score.depends_on_place or {"previous", "step"} & {*score.needs, *align.needs}:
        raise ConfigError(
            "the Image Transformer attends from all places at once",
            got=f"score={config.score}, align={config.align}",
            expected="a score and an alignment that look at neither places nor earlier weights",
            cure="use model.score=scaled_dot and model.align=softmax",
        )
    if not (config.image_size and config.channels) or (config.class_conditional and not config.classes):
        got = f"image_size={config.image_size}, channels={config.channels}, classes={config.classes}"
        raise ConfigError("the size of the pictures is not known", got=got, cure="let the data of a task decide it")
    if config.dim % 4:
        expected = "a multiple of 4: half for rows, half for columns, sines and cosines"
        raise ConfigError("model.dim", got=config.dim, expected=expected)

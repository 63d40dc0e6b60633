"""Readers of words in photographs: rectify, look by convolutions, read along the word, write letter by letter.

- `decoder="attention"`: a spline straightens the word, a residual network makes columns of it, a bidirectional LSTM
  reads them, and an LSTM attends to them before each letter. RARE (Shi et al. 2016, arXiv 1603.03915), ASTER, and
  TPS-ResNet-BiLSTM-Attn of Baek et al. 2019, arXiv 1904.01906, whose sizes are those of `scene_text_base`.
- `decoder="attention_2d"`: nothing is straightened; an LSTM writes, and after each step it attends to all places of
  the feature map, rows and columns. SAR (Li et al. 2019, arXiv 1811.00751).
- `decoder="ctc"`: the twin of the first without attention: each column says a letter or nothing (CRNN,
  Shi et al. 2015).

docs/papers/scene_text.md says what differs.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Attention, Mask
from regard.attention.output import CallOptions
from regard.base import ConfigError, check_settings
from regard.base.ranges import Few, Pixels, Share, Vocabulary, Width
from regard.decode import Step
from regard.nn import Bidirectional, Dropout, LSTMState, SingleLSTM, StepAttention, StepLSTM, build_attention, run_lstm
from regard.nn.recurrent import StackedLSTM
from regard.nn.spline import Rectifier
from regard.score import Prepared


@dataclass(frozen=True)
class SceneTextConfig:
    """Sizes, and how letters come out of the feature map; any score and any alignment."""

    vocabulary: Vocabulary = 0  # letters and marks; the data decide
    height: Pixels = 32  # of the pictures; the data decide
    width: Pixels = 128  # of the pictures; the data decide
    decoder: Literal["attention", "attention_2d", "ctc"] = "attention"  # along the columns, over all places, or none
    rectify: bool = True  # a thin-plate spline straightens the word first
    control_points: Few = 20  # of the spline
    channels: Width = 64  # of the first stage; each of the four has twice as many as the one before
    blocks: tuple[Few, ...] = (1, 2, 3, 2)  # residual blocks of the stages
    hidden_dim: Width = 256  # of each direction of the reader, and of the LSTM that writes
    layers: Few = 2  # of the reader; of the LSTM that writes over two dimensions too
    embed_dim: Width = 64  # of a letter going in
    align_dim: Width = 256  # width of the additive score
    score: str = "additive"  # name of the score, of SCORES
    align: str = "softmax"  # name of the alignment, of ALIGNS
    dropout: Share = 0.1  # on what the reader gives, and before the logits

    def __post_init__(self) -> None:
        check_settings(self, "model")
        if len(self.blocks) != 4:
            raise ConfigError("model.blocks", got=self.blocks, expected="four numbers, one for each stage")
        if self.height % 16 or self.width % 4:
            got = f"{self.height} × {self.width}"
            raise ConfigError("the pictures of a reader", got=got, expected="16 divides the height, 4 the width")


def scene_text_base() -> SceneTextConfig:
    """TPS-ResNet-BiLSTM-Attn in half its depth: 19 million parameters in place of 49.6."""
    return SceneTextConfig()


def scene_text_2d() -> SceneTextConfig:
    """SAR with the same residual network, and with 256 in place of 512 numbers in its LSTMs."""
    return SceneTextConfig(decoder="attention_2d", rectify=False)


class Seen(NamedTuple):
    """A batch of pictures after the encoder."""

    values: Tensor  # [b k d], k = rows · columns places
    allowed: Tensor  # [b 1 k], True = may attend
    summary: Tensor  # [b h]: the whole word (2-D); zeros for the others
    keys: Tensor  # [b k e], what queries are compared with
    lengths: Tensor  # [b], columns that are not padding


class State(NamedTuple):
    """What goes from letter to letter."""

    lstm: LSTMState
    keys: Tensor  # [n k a], prepared once
    values: Tensor  # [n k d]
    allowed: Tensor  # [n 1 k]
    summary: Tensor  # [n h]
    previous: Tensor  # [n k], the weights of the step before
    time: Tensor | int


class WordLogits(NamedTuple):
    """What a reader says of a batch: of the letter after each of those given, or, without attention, of each column."""

    logits: Tensor  # [b t v]
    lengths: Tensor | None = None  # [b], columns that count; None where letters were given
    weights: Tensor | None = None  # [b t k]


class SceneText(nn.Module):
    """A reader of single words."""

    def __init__(self, config: SceneTextConfig) -> None:
        super().__init__()
        if config.decoder == "attention_2d" and config.rectify:
            cure = "set model.rectify=false"
            raise ConfigError("attention over two dimensions needs no spline", got="rectify=true", cure=cure)
        self.config = config
        hidden, two = config.hidden_dim, config.decoder == "attention_2d"
        self.rectifier = None
        if config.rectify:
            self.rectifier = Rectifier((config.height, config.width), points=config.control_points)
        self.features = WordResNet(config.channels, config.blocks, flat=not two)
        wide = 8 * config.channels
        self.dropout = Dropout(config.dropout)
        self.to_keys = self.whole = self.from_whole = None
        self.readers, self.joins = nn.ModuleList(), nn.ModuleList()
        if two:
            self.whole = StackedLSTM(wide, hidden, config.layers)
            self.from_whole = nn.Linear(hidden, config.embed_dim)
            self.to_keys = nn.Conv2d(wide, hidden, 3, padding=1)
            key_dim, value_dim = hidden, wide
        else:
            for layer in range(config.layers):
                entry = wide if layer == 0 else hidden
                self.readers.append(Bidirectional(entry, hidden, kind=nn.LSTM))
                self.joins.append(nn.Linear(2 * hidden + entry, hidden))
            key_dim = value_dim = hidden
        if config.decoder == "ctc":
            self.to_logits = nn.Linear(hidden, config.vocabulary)
            return
        self.embedding = nn.Embedding(config.vocabulary, config.embed_dim)
        self.attention = build_attention(
            config.score, config.align, query_dim=hidden, key_dim=key_dim, hidden_dim=config.align_dim
        )
        if two:
            _check_history(self.attention, config)
        entry = config.embed_dim + (0 if two else value_dim)
        self.lstm = nn.LSTM(entry, hidden, config.layers if two else 1, batch_first=True)
        self.to_logits = nn.Linear(hidden + value_dim + (hidden if two else 0), config.vocabulary)

    @property
    def attends(self) -> bool:
        """Whether letters are written one by one, each with a look at the picture."""
        return self.config.decoder != "ctc"

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the places."""
        rows = self.config.height // 8 if self.config.decoder == "attention_2d" else 1
        return rows, self.config.width // 4

    def positions(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b i j 2"] | None:
        """Where in a picture (x, y from −1 to 1) the pixels of the straightened one were read; None: no spline."""
        if self.rectifier is None:
            return None
        return self.rectifier.grid(self.rectifier.points(images))

    # ── the encoder ─────────────────────────────────────────────────────────────────────────────────────────────────

    def encode(self, images: Float[Tensor, "b 1 h w"], widths: Int[Tensor, " b"] | None = None) -> Seen:
        """Places of pictures with mean 0 and deviation 1. Columns from `widths` on are padding."""
        batch = len(images)
        if widths is None:
            widths = torch.full((batch,), images.shape[-1], device=images.device)
        if self.rectifier is not None:
            images = self.rectifier(images)
        if images.is_cuda:
            images = images.contiguous(memory_format=torch.channels_last)
        seen = self.features(images)  # [b d i j]
        _, _, rows, columns = seen.shape
        lengths = ((widths + 3) // 4).clamp(1, columns)
        if self.config.decoder != "attention_2d":
            values = seen.squeeze(2).transpose(1, 2)
            for reader, join in zip(self.readers, self.joins, strict=True):
                values = join(torch.cat([reader(values, lengths), values], -1))  # what was seen goes past the LSTM
            values = self.dropout(values)
            return Seen(values, _columns(lengths, columns, 1), values.new_zeros(batch, 0), values, lengths)
        assert self.whole is not None
        assert self.to_keys is not None
        outside = torch.arange(columns, device=seen.device) >= lengths.unsqueeze(1)
        seen = seen.masked_fill(outside[:, None, None, :], 0.0)
        tops = seen.amax(2).transpose(1, 2)  # each column's largest
        _, final = self.whole(tops, lengths)
        keys = self.to_keys(seen).flatten(2).transpose(1, 2)
        values = self.dropout(seen.flatten(2).transpose(1, 2))
        return Seen(values, _columns(lengths, columns, rows), final[:, 0, -1], keys, lengths)

    # ── the decoder ─────────────────────────────────────────────────────────────────────────────────────────────────

    def init_state(self, memory: Seen) -> State:
        """Zeros; over two dimensions, the LSTM has first read the whole word. Keys are projected here, once."""
        batch, places, _ = memory.values.shape
        keys = self.attention.prepare(memory.keys).keys
        zeros = memory.values.new_zeros(batch, self.lstm.num_layers, self.config.hidden_dim)
        lstm = LSTMState(zeros, zeros)
        if self.from_whole is not None:
            _, lstm = run_lstm(self.lstm, self.from_whole(memory.summary).unsqueeze(1), lstm)
        previous = torch.zeros(batch, places, device=keys.device, dtype=keys.dtype)
        previous[:, 0] = 1.0
        time = torch.zeros(batch, dtype=torch.long, device=keys.device)
        return State(lstm, keys, memory.values, memory.allowed, memory.summary, previous, time)

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One letter: logits of the next, where it looked, and the state after it."""
        attend = StepAttention(self.attention, state.keys, state.values, allowed=state.allowed)
        write = SingleLSTM(self.lstm, self.embedding(tokens), state.lstm)
        hidden, context, weights = self._advance(state, attend, write, state.lstm.hidden[:, -1])
        assert weights is not None, "a single step always has its weights"
        logits = self._logits(hidden, context, state.summary)
        return Step(logits, state._replace(lstm=write.state, previous=weights, time=state.time + 1), weights)

    def forward(
        self,
        images: Float[Tensor, "b 1 h w"],
        inputs: Int[Tensor, "b t"],
        widths: Int[Tensor, " b"] | None = None,
        *,
        need_weights: bool = False,
    ) -> WordLogits:
        """Logits of the letter after each of `inputs`, given those before it; without attention, of each column."""
        memory = self.encode(images, widths)
        if not self.attends:
            return WordLogits(self.to_logits(memory.values), memory.lengths)
        state = self.init_state(memory)
        letters = self.embedding(inputs)
        if self.from_whole is not None:
            return self._all_at_once(letters, state, need_weights)
        steps = inputs.shape[1]
        attend = StepAttention(
            self.attention, state.keys, state.values, allowed=state.allowed, steps=steps, need_weights=need_weights
        )
        write = StepLSTM(self.lstm, letters.transpose(0, 1), state.lstm)
        written, contexts, seen = [], [], []
        state, hidden = state._replace(time=0), state.lstm.hidden[:, -1]
        for number in range(steps):
            hidden, context, weights = self._advance(state, attend, write, hidden)
            state = state._replace(time=number + 1, previous=state.previous if weights is None else weights)
            written.append(hidden)
            contexts.append(context)
            seen.append(state.previous)
        logits = self._logits(torch.stack(written, 1), torch.stack(contexts, 1), state.summary)
        return WordLogits(logits, None, torch.stack(seen, 1) if need_weights else None)

    def _advance(
        self, state: State, attend: StepAttention, write: Any, hidden: Float[Tensor, "n h"]
    ) -> tuple[Float[Tensor, "n h"], Float[Tensor, "n d"], Float[Tensor, "n k"] | None]:
        """The step of the paper. Along columns: look with s_{t−1}, then write s_t; over places: write, then look."""
        if self.from_whole is not None:
            hidden = write()
            context, weights = attend(hidden, state.previous, state.time)
            return hidden, context, weights
        context, weights = attend(hidden, state.previous, state.time)  # e_ti, α_ti, c_t
        return write(context), context, weights  # s_t = LSTM([E y_{t−1}; c_t], s_{t−1})

    def _all_at_once(self, letters: Float[Tensor, "b t m"], state: State, need_weights: bool) -> WordLogits:
        """Over places the LSTM does not wait for what was seen: it runs once, and then all letters look together."""
        hidden, _ = run_lstm(self.lstm, letters, state.lstm)
        dropout = self.attention.dropout if self.attention.training else 0.0
        out = self.attention.run(
            hidden,
            Prepared(state.keys),
            state.values,
            CallOptions(Mask.of(state.allowed), None, None, 0, dropout),
            need_weights=need_weights,
            trace_as=self.attention,
        )
        return WordLogits(self._logits(hidden, out.context, state.summary), None, out.weights)

    def _logits(
        self, hidden: Float[Tensor, "*n h"], context: Float[Tensor, "*n d"], summary: Float[Tensor, "b s"]
    ) -> Float[Tensor, "*n v"]:
        """From the state and what was seen; over two dimensions, also from the whole word."""
        whole = summary.unsqueeze(1).expand(-1, hidden.shape[1], -1) if hidden.ndim == 3 else summary
        joined = torch.cat([hidden, context.to(hidden.dtype), whole.to(hidden.dtype)], -1)
        logits: Tensor = self.to_logits(self.dropout(joined))
        return logits


class WordResNet(nn.Module):
    """A residual network for words: 4 pixels of width become a column; the height goes down to 1, or to an eighth."""

    def __init__(self, channels: int, blocks: tuple[int, ...], *, flat: bool) -> None:
        super().__init__()
        half = max(channels // 2, 1)
        self.stem = nn.Sequential(*_convolution(1, half), nn.ReLU(), *_convolution(half, channels), nn.ReLU())
        widths = [channels * 2**stage for stage in range(4)]
        after: list[nn.Module] = [nn.MaxPool2d(2), nn.MaxPool2d((2, 1)), nn.Identity(), nn.Identity()]
        if flat:
            after[2] = nn.Sequential(*_convolution(widths[2], widths[2], (2, 1)), nn.ReLU())
            after[3] = nn.Sequential(*_convolution(widths[3], widths[3], (2, 1)), nn.ReLU())
        stages: list[nn.Module] = [nn.MaxPool2d(2)]
        before = channels
        for width, count, last in zip(widths, blocks, after, strict=True):
            stages += [WordBlock(before if number == 0 else width, width) for number in range(count)]
            stages.append(last)
            before = width
        self.stages = nn.Sequential(*stages)
        self.flat = flat

    def forward(self, images: Float[Tensor, "b 1 h w"]) -> Float[Tensor, "b d i j"]:
        """Features: [b 8c 1 w/4], or [b 8c h/8 w/4]."""
        seen: Tensor = self.stages(self.stem(images))
        return seen.mean(2, keepdim=True) if self.flat else seen


class WordBlock(nn.Module):
    """Two convolutions, and the way around them."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(*_convolution(before, width), nn.ReLU(), *_convolution(width, width))
        self.around: nn.Module = nn.Identity()
        if before != width:
            self.around = nn.Sequential(nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, seen: Float[Tensor, "b c i j"]) -> Float[Tensor, "b d i j"]:
        """Gives ReLU(f(x) + g(x)): f is the two convolutions, g the identity, or a projection where widths differ."""
        return F.relu(self.inner(seen) + self.around(seen))


def _convolution(before: int, width: int, stride: tuple[int, int] = (1, 1)) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(before, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width)


def _check_history(attention: Attention, config: SceneTextConfig) -> None:
    """Over two dimensions all letters look at once, so none can know where the letter before it looked."""
    needs = {*getattr(attention.score, "needs", ()), *getattr(attention.align, "needs", ())}
    if needs & {"previous", "step"}:
        got = f"score={config.score}, align={config.align}, which need to know the look before"
        cure = "set model.score=additive model.align=softmax, or model.decoder=attention model.rectify=true"
        raise ConfigError("attention over two dimensions looks with all letters at once", got=got, cure=cure)


def _columns(lengths: Int[Tensor, " b"], columns: int, rows: int) -> Bool[Tensor, "b 1 k"]:
    """True at the places of the first `lengths` columns, in each of the rows."""
    allowed = torch.arange(columns, device=lengths.device) < lengths.unsqueeze(1)
    return allowed.repeat(1, rows).unsqueeze(1)

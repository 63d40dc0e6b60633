"""Show, Attend and Tell: Xu et al. 2015, arXiv 1502.03044. Equation numbers are those of the paper.

Where the paper leaves room, its code decides: the output layer has a tanh, and the initial MLPs a hidden ReLU layer.
Other than there, f_att is one layer, the first word comes after <bos> (the code has a zero vector), forget gates start
open, and β gates hard attention too. docs/papers/show_attend_tell.md says what else differs.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.align import Hard
from regard.attention import Attention, AttentionOutput
from regard.attention.output import CallOptions
from regard.base import ConfigError, ShapeError, check_settings
from regard.base.ranges import OneOf, Range, Share, UpToOne, Vocabulary, Weight, Width
from regard.decode import Shared, Step
from regard.models.translator import EncodedSource
from regard.nn.attentions import build_attention
from regard.nn.dropout import Dropout
from regard.nn.efficientnet import TOP, efficientnet_lite0
from regard.nn.reward import MovingBaseline
from regard.score import Prepared

AtTest = Literal["expected", "argmax"]
EncoderName = Annotated[str, OneOf(("efficientnet_lite0",))]
Stage = Annotated[int, Range(least=1, most=TOP)]  # of the encoder
StageOrNone = Annotated[int, Range(least=0, most=TOP)]


@dataclass(frozen=True)
class ShowAttendTellConfig:
    """Sizes, and how to look: `align="softmax"` is the paper's soft attention, `"sample"` its hard one."""

    vocabulary: Vocabulary  # how many words; the data decide
    feature_dim: Width = 512  # D, what the encoder gives for a place
    embed_dim: Width = 512  # m
    hidden_dim: Width = 1024  # n; the paper's code has 1800 for COCO
    align_dim: Width = 512  # width of the additive score
    project_dim: Width | None = None  # a learnt ReLU layer over each place before all else; None: places as they are
    score: str = "additive"  # name of the score, of SCORES
    align: str = "softmax"  # or "sample", or any alignment without history
    gate: bool = True  # β, section 4.2.1
    semi_sampling: UpToOne = 0.5  # hard: the share of captions that see expected places in training (4.1)
    at_test: AtTest = "expected"  # hard: where to look in evaluation, unless the search says it
    mean_pooled: bool = False  # the twin without attention: the mean of all places, at every word
    tied: bool = False  # one matrix for words going in and words coming out
    dropout: Share = 0.5  # before the logits, as in the code
    embed_dropout: Share = 0.0  # on words going in
    feature_dropout: Share = 0.0  # on places
    encoder: EncoderName | None = None  # inside, to be fine-tuned; None: features come in
    encoder_stage: Stage = 8  # how deep the encoder is cut off
    encoder_frozen: StageOrNone = 0  # its stem and the stages below this number stay as they are; 0: all of it learns
    encoder_rate: Weight = 0.1  # its learning rate, as a share of the others'

    def __post_init__(self) -> None:
        check_settings(self, "model")


def show_attend_tell_flickr8k(vocabulary: int) -> ShowAttendTellConfig:
    """Soft attention over 14 × 14 places of 512 numbers; of the LSTM's size the paper says nothing for Flickr8k."""
    return ShowAttendTellConfig(vocabulary)


class Places(NamedTuple):
    """What all prefixes of a caption share."""

    keys: Tensor  # [a k e], prepared once
    values: Tensor  # [a k d]
    at_test: AtTest  # where hard attention looks while nothing is drawn


class State(NamedTuple):
    """What goes from word to word."""

    hidden: Tensor  # h_{t−1} [n d]
    cell: Tensor  # c_{t−1} [n d]
    places: Shared  # of Places


class Captioned(NamedTuple):
    """A whole batch at once: what training needs."""

    logits: Tensor  # [b t v]
    weights: Tensor | None  # where it looked [b t k]; None without attention
    expected: Tensor | None  # α [b t k]: the same, but for sampled places
    log_prob: Tensor | None = None  # hard: of the sampled places [b t]
    entropy: Tensor | None = None  # hard: H[α_t] [b t]
    baseline: MovingBaseline | None = None  # hard: b, which moves when the loss gives it a reward


class ShowAttendTell(nn.Module):
    """An LSTM writes a caption, and before each word it looks at the picture."""

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        embed, hidden = config.embed_dim, config.hidden_dim
        self.encoder = None
        if config.encoder is not None:
            self.encoder = efficientnet_lite0(stage=config.encoder_stage, frozen=config.encoder_frozen)
        self.project = None if config.project_dim is None else nn.Linear(config.feature_dim, config.project_dim)
        width = config.project_dim or config.feature_dim
        self.embedding = nn.Embedding(config.vocabulary, embed, padding_idx=0)  # E
        self.attention = None
        if not config.mean_pooled:
            align = "softmax" if config.align == "sample" else config.align
            self.attention = build_attention(
                config.score, align, query_dim=hidden, key_dim=width, hidden_dim=config.align_dim
            )
            _check_history(self.attention.score, self.attention.align)
        self.is_hard = config.align == "sample" and not config.mean_pooled
        self.start_hidden, self.start_cell = _start(width, hidden), _start(width, hidden)  # f_init,h and f_init,c
        self.word_gates = nn.Linear(embed, 4 * hidden)  # T, the columns of E y; with the bias
        self.state_gates = nn.Linear(hidden + width, 4 * hidden, bias=False)  # T, those of h and ẑ
        self.gate = nn.Linear(hidden, 1) if config.gate else None  # f_β
        self.from_hidden = nn.Linear(hidden, embed)  # L_h
        self.from_context = nn.Linear(width, embed, bias=False)  # L_z
        self.to_logits = nn.Linear(embed, config.vocabulary)  # L_o
        self.dropout, self.embed_dropout = Dropout(config.dropout), Dropout(config.embed_dropout)
        self.feature_dropout = Dropout(config.feature_dropout)
        self.baseline = MovingBaseline(decay=0.9) if self.is_hard else None
        self._initialise()

    def _initialise(self) -> None:
        hidden = self.config.hidden_dim
        nn.init.normal_(self.embedding.weight, std=self.config.embed_dim**-0.5)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
            for block in self.state_gates.weight[:, :hidden].chunk(4):
                nn.init.orthogonal_(block)
        nn.init.zeros_(self.word_gates.bias)
        nn.init.ones_(self.word_gates.bias[hidden : 2 * hidden])  # forget
        nn.init.zeros_(self.to_logits.bias)
        if self.config.tied:
            self.to_logits.weight = self.embedding.weight

    @property
    def rates(self) -> dict[str, float]:
        """Shares of the learning rate, by the beginning of a parameter's name; 1 for all others."""
        return {} if self.encoder is None else {"encoder.": self.config.encoder_rate}

    @property
    def at_test(self) -> AtTest | None:
        """Where hard attention looks in evaluation; None for a model that draws no places."""
        return self.config.at_test if self.is_hard else None

    def see(self, images: Shaped[Tensor, "b 3 h w"]) -> Float[Tensor, "b k d"]:
        """Features of pictures (0 to 255), by the encoder inside."""
        if self.encoder is None:
            raise ShapeError(
                "pictures came in, but this model has no encoder",
                got=list(images.shape),
                expected="features [b k d]",
                cure="encode them first, or set model.encoder=efficientnet_lite0",
            )
        shown = (images.float() / 255).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.encoder(shown).values
        return features

    def encode(self, features: Shaped[Tensor, "..."]) -> EncodedSource:
        """Places [b k d] (a), from features [b k D], or from pictures [b 3 h w] (0 to 255) by the encoder inside."""
        dtype = _dtype(self.to_logits.weight)
        if features.ndim == 4:
            features = self.see(features)
        if features.shape[-1] != self.config.feature_dim:
            raise ShapeError(
                "features have the wrong width",
                got=features.shape[-1],
                expected=self.config.feature_dim,
                cure="set model.feature_dim to what the encoder gives for a place",
            )
        values: Tensor = self.feature_dropout(features.to(dtype))
        if self.project is not None:
            values = self.feature_dropout(F.relu(self.project(values)))
        lengths = torch.full((values.shape[0],), values.shape[1], device=values.device)
        return EncodedSource(values, lengths, values.mean(1))

    def init_state(self, memory: EncodedSource, *, at_test: AtTest | None = None) -> State:
        """h_0 and c_0 from the mean of all places (section 3.1.2); the keys are projected here, once.

        `at_test` says where hard attention looks in evaluation; None is as `config.at_test` has it.
        """
        if at_test is not None and not self.is_hard:
            got, cure = f"places={at_test!r}, model.align={self.config.align!r}", "leave places out"
            raise ConfigError("only hard attention chooses where to look", got=got, cure=cure)
        at_test = _checked(at_test or self.config.at_test)
        keys = memory.values if self.attention is None else self.attention.prepare(memory.values).keys
        hidden, cell = (start(memory.summary) for start in (self.start_hidden, self.start_cell))
        wide = torch.promote_types(cell.dtype, torch.float32)
        return State(hidden, cell.to(wide), Shared(Places(keys, memory.values, at_test)))

    def fixed_state(self, state: State, *, steps: int) -> State:
        """The state itself: nothing in it grows."""
        return state

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word: look with h_{t−1}, write h_t, predict."""
        word = self.embed_dropout(self.embedding(tokens))
        weight = self.state_gates.weight
        attention = self._way_to_look(state.places.value, None)
        state, context, look = self._advance(self.word_gates(word), state, weight, attention)
        weights = None if look.weights is None else look.weights.flatten(0, 1)
        return Step(self._logits(word, state.hidden, context), state, weights)

    def forward(
        self,
        features: Shaped[Tensor, "..."],
        inputs: Int[Tensor, "b t"],
        *,
        in_pairs: bool = False,
        at_test: AtTest | None = None,
    ) -> Captioned:
        """Word after word; all that does not depend on the word before is done for all words at once.

        Of a pictures and b = a · m captions, captions p · m … p · m + m − 1 are of picture p: it is encoded once, and
        they share its places and their dropout. In training, hard attention tosses a coin for each caption, whether it
        sees drawn places. `in_pairs`, the captions of a picture come twice instead, with expected places and then with
        drawn ones, and with the same dropout, so that they differ by the places alone. `at_test`: see
        `init_state`.
        """
        if in_pairs and not self.is_hard:
            raise ConfigError(
                "only hard attention draws places", got=self.config.align, expected="model.align='sample'"
            )
        captions = _captions_each(features, inputs)
        state = self.init_state(self.encode(features), at_test=at_test)
        hidden, cell = (each.repeat_interleave(captions, 0) for each in (state.hidden, state.cell))
        state = State(hidden, cell, state.places)
        each = captions // 2 if in_pairs else None
        words = _thinned(self.embed_dropout, self.embedding(inputs), each)
        gates = self.word_gates(words)
        weight = self.state_gates.weight.to(_dtype(self.state_gates.weight))  # cast once, not at every word
        drawn = None  # [a w]: which captions see drawn places
        if self.is_hard and self.training:
            if in_pairs:
                drawn = (torch.arange(captions, device=inputs.device) >= captions // 2).expand(len(features), captions)
            else:
                drawn = torch.rand(len(features), captions, device=inputs.device) >= self.config.semi_sampling
        attention = self._way_to_look(state.places.value, drawn)
        written, contexts, looks = [], [], []
        expected: list[Tensor | None] = []
        for gate in gates.unbind(1):
            state, context, look = self._advance(gate, state, weight, attention)
            written.append(state.hidden)
            contexts.append(context)
            looks.append(look)
            if drawn is not None and attention is not None:
                expected.append(attention.align.expected)
        logits = self._logits(words, torch.stack(written, 1), torch.stack(contexts, 1), each)
        weights, log_prob, entropy = (
            _stacked([getattr(look, name) for look in looks]) for name in ("weights", "log_prob", "entropy")
        )
        return Captioned(
            logits, weights, weights if drawn is None else _stacked(expected), log_prob, entropy, self.baseline
        )

    def _advance(
        self,
        word: Float[Tensor, "n g"],
        state: State,
        weight: Float[Tensor, "g s"],
        attention: Attention | None,
    ) -> tuple[State, Float[Tensor, "n c"], AttentionOutput]:
        """(1)–(3): from h_{t−1} and c_{t−1} to h_t and c_t."""
        places: Places = state.places.value
        query = state.hidden.view(places.values.shape[0], -1, state.hidden.shape[-1])
        look = self._look(query, places, attention)
        context = look.context.flatten(0, 1)
        if self.gate is not None:
            context = torch.sigmoid(self.gate(state.hidden)) * context  # β_t = σ(f_β(h_{t−1}))
        gates = word + F.linear(torch.cat([state.hidden, context.to(state.hidden.dtype)], -1), weight)
        enter, forget, new, leave = gates.to(state.cell.dtype).chunk(4, -1)
        cell = torch.sigmoid(forget) * state.cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        return State(hidden.to(state.hidden.dtype), cell, state.places), context, look

    def _look(self, query: Float[Tensor, "a w d"], places: Places, attention: Attention | None) -> AttentionOutput:
        """Where w prefixes of each of a pictures look, and what is there: e_ti (4), α_ti (5), ẑ_t (6)."""
        if attention is None or self.attention is None:
            mean = places.values.mean(1, keepdim=True)
            return AttentionOutput(mean.expand(-1, query.shape[1], -1))
        options = CallOptions(None, None, None, 0, 0.0)
        return attention.run(
            query, Prepared(places.keys), places.values, options, need_weights=True, trace_as=self.attention
        )

    def _way_to_look(self, places: Places, drawn: Bool[Tensor, "a w"] | None) -> Attention | None:
        """The attention of this model (13), or with its score one place at a time (8): `drawn` says for whom."""
        if self.attention is None or not self.is_hard:
            return self.attention
        if drawn is not None:
            return Attention(self.attention.score, Hard("sample", drawn=drawn))
        return Attention(self.attention.score, Hard("argmax")) if places.at_test == "argmax" else self.attention

    def _logits(
        self,
        word: Float[Tensor, "*b m"],
        hidden: Float[Tensor, "*b n"],
        context: Float[Tensor, "*b d"],
        each: int | None = None,
    ) -> Float[Tensor, "*b v"]:
        """p(y_t | a, y_{t−1}) ∝ exp(L_o (E y_{t−1} + L_h h_t + L_z ẑ_t)) (7), with the code's tanh."""
        mixed = torch.tanh(word + self.from_hidden(hidden) + self.from_context(context))
        logits: Tensor = self.to_logits(_thinned(self.dropout, mixed, each))
        return logits


def _thinned(dropout: Dropout, x: Shaped[Tensor, "*s"], each: int | None) -> Shaped[Tensor, "*s"]:
    """Dropout; of captions in pairs, `each` and then the same again, both alike."""
    if each is None or not dropout.training:
        thinned: Tensor = dropout(x)
        return thinned
    pairs = x.view(-1, 2, each, *x.shape[1:])
    mask: Tensor = dropout(torch.ones_like(pairs[:, :1]))
    return (pairs * mask).view(x.shape)


def _start(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, hidden), nn.Tanh())


def _dtype(weight: Tensor) -> torch.dtype:
    """The type in which products are made."""
    device = weight.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype


def _stacked(tensors: list[Tensor | None]) -> Tensor | None:
    """[a w …] of each word → [b t …], b = a · w."""
    real = [tensor.flatten(0, 1) for tensor in tensors if tensor is not None]
    return torch.stack(real, 1) if real else None


def _captions_each(features: Shaped[Tensor, "..."], inputs: Int[Tensor, "b t"]) -> int:
    """How many captions there are of each picture."""
    pictures, captions = len(features), len(inputs)
    if pictures == 0 or captions % pictures:
        raise ShapeError(
            "captions do not go evenly into pictures",
            got=f"{captions} captions of {pictures} pictures",
            expected="the same number for each picture, one after the other",
            cure="repeat a caption, or its picture, until they do",
        )
    return captions // pictures


def _check(config: ShowAttendTellConfig) -> None:
    if config.encoder is None and config.encoder_frozen:
        cure = "set task.finetune=true, which puts the encoder into the model"
        raise ConfigError("model.encoder_frozen", got=config.encoder_frozen, expected="0 without an encoder", cure=cure)


def _checked(at_test: AtTest, name: str = "places") -> AtTest:
    if at_test not in get_args(AtTest):
        raise ConfigError(name, got=repr(at_test), expected="'expected' or 'argmax'")
    return at_test


def _check_history(*chosen: object) -> None:
    for each in chosen:
        if needs := getattr(each, "needs", ()):
            raise ConfigError(
                "captions look at pictures, which have no order",
                got=f"{type(each).__name__}, which needs {', '.join(needs)}",
                expected="a score and an alignment without history",
            )

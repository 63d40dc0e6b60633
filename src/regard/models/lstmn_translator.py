"""LSTMN as encoder and decoder (Cheng, Dong & Lapata 2016, section 4, arXiv 1601.06733), here as a translator.

An LSTMN reads the source and leaves its tapes γ (hidden) and α (memory). Another one writes the target: before each
word it attends to its own tapes, (4) to (6), and to those of the source, (10) to (12), by shallow or by deep fusion.
The equations are in `regard.models.lstmn`. The next word is predicted from h_t.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.base import check_settings
from regard.base.ranges import Count, Few, Share, Vocabulary, Width
from regard.decode import Step
from regard.models.lstmn import LSTMN, Cells, Gazes, SourceTapes, TapesFused, stack_lstmn
from regard.models.translator import EncodedSource, Translated, Translator
from regard.nn import Dropout
from regard.nn.attentions import check_names


@dataclass(frozen=True)
class LSTMNTranslatorConfig:
    """The paper has no translator; 450 units are those of its largest model of pairs."""

    source_vocabulary: Vocabulary  # words or sub-words of the source; the data decide
    target_vocabulary: Vocabulary  # of the target; the data decide
    embed_dim: Width = 300  # width of a word
    hidden_dim: Width = 450  # of h and c
    align_dim: Width = 450  # inside of the additive scores
    layers: Few = 1  # LSTMNs of encoder and decoder, one above the other
    fusion: Literal["shallow", "deep"] = "deep"  # how the decoder takes in what it attends to in the source
    score: str = "additive"  # of a target word and the source, of SCORES
    align: str = "softmax"  # of ALIGNS
    intra_score: str = "additive"  # of a word and the words before it in its own sentence, of SCORES
    intra_align: str = "softmax"  # of ALIGNS
    tape: Few = 100  # how many words back it can attend
    max_source: Count = 200  # positions that score="location" knows
    dropout: Share = 0.0  # share of the numbers that are set to zero in training: words, h between layers, h of the top

    def __post_init__(self) -> None:
        check_settings(self, "model")
        check_names(self.score, self.align)
        check_names(self.intra_score, self.intra_align, prefix="intra_")


class State(NamedTuple):
    """What goes from word to word; each has one entry for each layer."""

    cells: tuple[Cells, ...]  # the decoder's tapes, as long as what is written
    gazes: tuple[Gazes, ...]
    source: tuple[SourceTapes, ...]


class LSTMNTranslator(Translator):
    """Reads the source word by word, then writes the target; layer k of the decoder attends to layer k of the encoder.

    The weights that it gives are those of the top layer.
    """

    source_layers = "decoder.*.inter_attention"

    def __init__(self, config: LSTMNTranslatorConfig) -> None:
        super().__init__()
        self.config = config
        self.source = nn.Embedding(config.source_vocabulary, config.embed_dim, padding_idx=0)
        self.target = nn.Embedding(config.target_vocabulary, config.embed_dim, padding_idx=0)
        self.encoder = _layers(config, "none")
        self.decoder = _layers(config, config.fusion)
        self.to_logits = nn.Linear(config.hidden_dim, config.target_vocabulary)
        self.dropout = Dropout(config.dropout)

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """γ and α of all layers side by side [b k 2·layers·d]; the decoder begins with empty tapes."""
        words, tapes = self.dropout(self.source(source)), list[Tensor]()
        for number, layer in enumerate(self.encoder):
            assert isinstance(layer, LSTMN)
            hidden, memory, _ = layer(self._entry(number, words, tapes[-2] if tapes else words), lengths=lengths)
            tapes += [hidden, memory]
        values = torch.cat(tapes, -1)
        return EncodedSource(values, lengths, values.new_zeros(len(values), 0))

    def init_state(self, memory: EncodedSource) -> State:
        """Empty tapes of the decoder, and the tapes of the source, whose keys are made once."""
        batch, hidden_dim = len(memory.values), self.config.hidden_dim
        tapes = torch.split(memory.values, hidden_dim, -1)
        source = tuple(
            layer.source_tapes(tapes[2 * number], tapes[2 * number + 1], memory.lengths)
            for number, layer in enumerate(self._decoder())
        )
        nothing = memory.values.new_zeros(batch, 0, hidden_dim)
        written = torch.zeros(batch, 0, dtype=torch.bool, device=nothing.device)
        cells = Cells(nothing, nothing, written, nothing.new_zeros(batch, hidden_dim))
        time = torch.zeros(batch, dtype=torch.long, device=nothing.device)
        gazes = tuple(
            layer.initial_gazes(tapes)._replace(time=time) for layer, tapes in zip(self._decoder(), source, strict=True)
        )
        return State((cells,) * len(source), gazes, source)

    def step(self, tokens: Int[Tensor, " n"], state: State) -> Step:
        """One word, through all layers of the decoder."""
        tapes = self._write(self.target(tokens).unsqueeze(1), state, need_weights=True)
        state = state._replace(cells=tuple(layer.cells for layer in tapes), gazes=tuple(layer.gazes for layer in tapes))
        weights = tapes[-1].weights
        assert weights is not None
        return Step(self.to_logits(self.dropout(tapes[-1].hidden)).squeeze(1), state, weights.squeeze(1))

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """All words, layer after layer; weights if asked for."""
        state = self.init_state(self.encode(source, lengths))
        state = state._replace(gazes=tuple(gazes._replace(time=0) for gazes in state.gazes))
        top = self._write(self.target(inputs), state, need_weights=need_weights)[-1]
        return Translated(self.to_logits(self.dropout(top.hidden)), top.weights)

    def _write(self, words: Float[Tensor, "n t m"], state: State, *, need_weights: bool) -> list[TapesFused]:
        """The tapes of every layer of the decoder after these words; the top one gives weights, if asked for."""
        words, tapes = self.dropout(words), list[TapesFused]()
        for number, layer in enumerate(self._decoder()):
            x = self._entry(number, words, tapes[-1].hidden if tapes else words)
            is_top = number == self.config.layers - 1
            tapes.append(
                layer.fused(
                    x,
                    state.source[number],
                    state.cells[number],
                    gazes=state.gazes[number],
                    need_weights=need_weights and is_top,
                )
            )
        return tapes

    def _entry(
        self, number: int, words: Float[Tensor, "n t m"], below: Float[Tensor, "n t d"]
    ) -> Float[Tensor, "n t e"]:
        """What layer `number` reads: the words, and h of the layer below beside them."""
        return words if number == 0 else torch.cat([words, self.dropout(below)], -1)

    def _decoder(self) -> list[LSTMN]:
        return [layer for layer in self.decoder if isinstance(layer, LSTMN)]


def _layers(config: LSTMNTranslatorConfig, fusion: Literal["none", "shallow", "deep"]) -> nn.ModuleList:
    """Builds the LSTMNs of the encoder or of the decoder."""
    return stack_lstmn(
        config.layers,
        config.embed_dim,
        config.hidden_dim,
        align_dim=config.align_dim,
        score=config.intra_score,
        align=config.intra_align,
        tape=config.tape,
        fusion=fusion,
        inter_score=config.score,
        inter_align=config.align,
        max_source=config.max_source,
    )

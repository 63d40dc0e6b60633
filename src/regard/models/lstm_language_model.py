"""A language model with ordinary LSTM layers: the twin of LSTMN, with the same embedding, dropout and output."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.base import check_settings
from regard.base.ranges import Few, Share, Vocabulary, Width
from regard.models.language_model import LanguageModel
from regard.nn import LSTMState, run_lstm


@dataclass(frozen=True)
class LSTMLanguageModelConfig:
    """Sizes of the baseline in Cheng et al. 2016: 300 units."""

    vocabulary: Vocabulary = 0  # tokens; the data decide
    embed_dim: Width = 300  # of a token
    hidden_dim: Width = 300  # of h and c
    layers: Few = 1  # LSTMs, one above the other
    dropout: Share = 0.0  # share of the numbers that are set to zero in training, below, between and above the layers
    embed_dropout: Share | None = None  # the same below the first layer, where it is not `dropout`
    word_dropout: Share = 0.0  # share of the vocabulary that is set to zero in training, drawn for each text
    locked: bool = False  # whether dropout sets the same numbers to zero at every step of a text
    weight_dropout: Share = 0.0  # share of the weights from h to the gates that are set to zero in training
    tied: bool = False  # the output has the weights of the embedding; needs embed_dim = hidden_dim

    def __post_init__(self) -> None:
        check_settings(self, "model")


class LSTMLanguageModel(LanguageModel):
    """Reads token after token; all that it keeps of the past is h and c."""

    def __init__(self, config: LSTMLanguageModelConfig) -> None:
        super().__init__(
            vocabulary=config.vocabulary,
            embed_dim=config.embed_dim,
            hidden_dim=config.hidden_dim,
            dropout=config.dropout,
            tied=config.tied,
            embed_dropout=config.embed_dropout,
            word_dropout=config.word_dropout,
            locked=config.locked,
        )
        self.config = config
        between = config.dropout if config.layers > 1 else 0.0
        self.layers = nn.LSTM(config.embed_dim, config.hidden_dim, config.layers, batch_first=True, dropout=between)

    def initial_state(self, batch: int) -> LSTMState:
        """The state before the first word: h and c are zero."""
        zeros = next(self.parameters()).new_zeros(batch, self.config.layers, self.config.hidden_dim)
        return LSTMState(zeros, zeros.clone())

    def read(self, words: Float[Tensor, "b t e"], state: LSTMState | None) -> tuple[Float[Tensor, "b t h"], LSTMState]:
        """h of the top layer at each word, and the state after the last."""
        state = self.initial_state(len(words)) if state is None else state
        state = LSTMState(*(each.to(words.dtype) for each in state))
        return run_lstm(self.layers, words, state, weight_dropout=self.config.weight_dropout)

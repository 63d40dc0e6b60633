"""What every translation model offers: encode once, step often, or teacher-force a whole batch."""

from typing import Any, NamedTuple

from jaxtyping import Int
from torch import Tensor, nn

from regard.decode import Step


class EncodedSource(NamedTuple):
    """A source sentence after the encoder."""

    values: Tensor  # [b k d]
    lengths: Tensor  # [b]
    summary: Tensor  # [b …]: what the decoder starts from


class Translated(NamedTuple):
    """A whole batch at once: what training needs."""

    logits: Tensor  # [b t v]
    weights: Tensor | None  # [b t k], those that `step` gives; None without attention, or without `need_weights`


class Translator(nn.Module):
    """`forward` equals `encode`, `init_state`, then `step` for each target word; models do it faster where they can.

    `source_layers` names the layers of the decoder that look at the source, as a pattern for a trace:
    `trace(model, layers=model.source_layers)` collects weights [b t k] or [b h t k] over source words, and no others.
    It is empty, and matches no layer, for a model without attention. `self_attention_layers` names those in which the
    words of the source attend to each other, and `target_self_layers` those in which words of the translation do.

    Where several layers and heads look at the source, `best_head` says whose weights `step` gives: those of the layer
    and the head that are best aligned on held-out data, once they are known.
    """

    source_layers: str = ""
    self_attention_layers: str = ""
    target_self_layers: str = ""
    can_choose_head: bool = False  # whether `best_head` may be set
    best_head: tuple[str, int] | None = None  # the name of a layer, and the number of its head

    @property
    def weights_from(self) -> str:
        """Where the weights of `step` come from, in words; nothing where there is only one place."""
        return ""

    def encode(self, source: Int[Tensor, "b k"], lengths: Int[Tensor, " b"]) -> EncodedSource:
        """Source ids [b k] and their lengths [b], read once."""
        raise NotImplementedError

    def init_state(self, memory: EncodedSource) -> Any:
        """The state before the first target word: a nest of tensors [b …], reordered by `decode.pick`."""
        raise NotImplementedError

    def fixed_state(self, state: Any, *, steps: int) -> Any:
        """The first state with room for `steps` steps, in which no tensor grows; None for a model that has none.

        `step` takes it as it takes the other one. A search over fixed shapes asks for it.
        """
        return None

    def packed(self) -> Any:
        """The model as it is now, for search on a CPU: the same `encode`, `init_state` and `step`, in few operations.

        A text with the reason where this model, with these settings, cannot be packed.
        """
        return f"{type(self).__name__}, which has no packed form"

    def step(self, tokens: Int[Tensor, " n"], state: Any) -> Step:
        """Logits [n v] for the word after `tokens`, the new state, and the weights [n k] of this step."""
        raise NotImplementedError

    def forward(
        self,
        source: Int[Tensor, "b k"],
        lengths: Int[Tensor, " b"],
        inputs: Int[Tensor, "b t"],
        *,
        need_weights: bool = False,
    ) -> Translated:
        """Logits [b t v] for the word after each of `inputs` (BOS first), given all words before it.

        With `need_weights` there are also the weights [b t k] of each step. Training does without them, so that
        attention can take its fast path; `decode` and `Model.translate` always have those of what they found.
        """
        raise NotImplementedError


class Paper(NamedTuple):
    """Where a model comes from."""

    model: type[nn.Module]
    config: type
    year: int
    title: str
    link: str = ""  # its page on arXiv; empty for a model that no paper describes
    attends: bool = True  # False for the models that others are compared with

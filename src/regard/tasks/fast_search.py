"""When a search runs over packed weights or fixed shapes, and what these need: a copy, buffers, and recorded steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.tracing import is_tracing
from regard.base import ConfigError
from regard.data import BOS, EOS, Pair, TokenBatch, evaluation_batches
from regard.data.tokens import SourceBatch, source_batch
from regard.decode import Hypothesis
from regard.decode.beam import Rules
from regard.decode.captured import Captured
from regard.decode.fixed_path import PathRules
from regard.decode.fixed_search import AtOnce, FixedSearch, fitting, room_for
from regard.decode.fixed_state import FixedShapes
from regard.decode.protocol import Packable, tensors
from regard.nn.evaluating import device_of
from regard.nn.frozen import Frozen

SIZES = (1, 4, 16, 64, 128, 256, 512, 1024, 2048)  # sentences in a step
FEW = 16  # sentences that fit into every memory, and for which recording does not pay
HELD = 2**30  # bytes that may be kept from one job to the next
MOST_BEAMS = 16  # of a packed model, where every prefix looks at the places of all prefixes of its sentence
SHARE = 0.4  # of the free memory that a search may fill
_KEPT: WeakKeyDictionary[nn.Module, dict[torch.dtype | None, "FastSearch"]] = WeakKeyDictionary()


def fast_search(model: nn.Module, how: Any, *, count: int) -> "FastSearch | None":
    """The search of `count` sentences over fixed shapes with these settings, or None for the plain one.

    impl="fixed" takes it on any device, or says why it cannot; so does precision="bfloat16". "auto" takes it on a GPU
    for a search, not for samples, of many sentences, or of a model whose steps were recorded already; whoever asked
    with "auto" sees to `has_shapes`.
    """
    if how.impl in ("plain", "packed"):
        return None
    wished = how.impl == "fixed" or how.precision != "model"
    few = count < FEW and model not in _KEPT
    if not wished and (device_of(model).type != "cuda" or few or how.temperature is not None):
        return None
    reason = _reason_against_fixed(model)
    if reason and wished:
        raise ConfigError("a search over fixed shapes cannot run here", got=reason, cure="set impl=plain")
    return None if reason else _kept(model, torch.bfloat16 if how.precision == "bfloat16" else None)


def recording_seconds(model: nn.Module) -> float:
    """What recording the steps of a model's searches has taken so far."""
    return sum((search.seconds for search in _KEPT.get(model, {}).values()), 0.0)


def packed(model: nn.Module, how: Any) -> Any:
    """The model to search plainly with: packed where that is possible on a CPU, or the model itself.

    impl="packed" takes the packed one, or says why it cannot.
    """
    if how.impl not in ("auto", "packed"):
        return model
    reason = _reason_against_packed(model, how)
    if not reason:
        made = cast(Packable, model).packed()
        if not isinstance(made, str):
            return made
        reason = made
    if how.impl == "packed":
        raise ConfigError("a search over packed weights cannot run here", got=reason, cure="set impl=plain")
    return model


def _reason_against_packed(model: nn.Module, how: Any) -> str:
    if not isinstance(model, Packable):
        return f"{type(model).__name__}, which has no packed form"
    if how.temperature is None and how.beams > MOST_BEAMS:
        return f"{how.beams} beams: more than {MOST_BEAMS} are quicker with a cache for each"
    if device_of(model).type != "cpu":
        return f"weights on {device_of(model)}, where launches cost more than memory"
    if torch.is_autocast_enabled("cpu"):
        return "autocast, which packed weights do not follow"
    return _reason_against_another(model)


def _reason_against_fixed(model: nn.Module) -> str:
    """Why a model cannot be searched with over fixed shapes; empty if it can."""
    if not isinstance(model, FixedShapes):
        return f"{type(model).__name__}, which has no fixed_state"
    return _reason_against_another(model)


def _reason_against_another(model: nn.Module) -> str:
    """Why nothing but the model itself may run; empty if another one may run in its place."""
    if is_tracing() or torch._C._len_torch_function_stack() > 0:
        return "a trace or an intervention, which would not see the copy of the model that is searched with"
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return "a hook on a module, which would be called in recording alone" if hooked else ""


def _kept(model: nn.Module, dtype: torch.dtype | None) -> "FastSearch":
    """The search of this model; on a GPU the one that has recorded steps, with the weights of now."""
    device = device_of(model)
    if device.type != "cuda":
        return FastSearch(model, dtype)
    kept = _KEPT.setdefault(model, {})
    if dtype in kept and kept[dtype].fits(model):
        kept[dtype].refresh(model)
    else:
        kept[dtype] = FastSearch(model, dtype)
    return kept[dtype]


class _Start(NamedTuple):
    """What comes before the first step of a search, from the source on: it can be recorded."""

    search: FixedSearch
    places: list[Tensor]  # of source, lengths, last steps and perhaps a mask
    tick: Callable[[], None]


class FastSearch:
    """The searches of one model over fixed shapes, each for some shapes and rules. `model` is the copy that they use.

    With a `dtype` the copy computes in it.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        self.device, self._own = device_of(model), _dtype(model)
        self._frozen = Frozen(model, dtype)
        self.model: Any = self._frozen.model
        self._searches: dict[tuple[Any, ...], FixedSearch] = {}
        self._starts: dict[tuple[Any, ...], _Start] = {}
        self._needs: dict[tuple[Any, ...], int] = {}  # bytes of a sentence
        self._has_shapes: bool | None = None  # None: nobody has asked
        self._held = 0  # bytes of the device that searches and recordings took
        self._pool: Any = None

    @property
    def seconds(self) -> float:
        """What recording has taken."""
        runners = (each.runner for each in self._searches.values())
        return sum((each.seconds for each in runners if isinstance(each, Captured)), 0.0)

    def has_shapes(self, state: Callable[[Any], Any]) -> bool:
        """Whether states like the one that `state` makes with the copy of the model can keep their shapes."""
        if self._has_shapes is None:
            self._has_shapes = self.model.fixed_state(state(self.model), steps=room_for(1)) is not None
        return self._has_shapes

    def trim(self) -> None:
        """Lets go of buffers and recordings if they hold more of the device than `HELD` bytes."""
        if self._held > HELD:
            self._searches, self._starts, self._pool, self._held = {}, {}, None, 0

    def fits(self, model: nn.Module) -> bool:
        """Whether the copy is one of this model as it is: on the same device, in the same type."""
        return (device_of(model), _dtype(model)) == (self.device, self._own)

    def refresh(self, model: nn.Module) -> None:
        """Takes the weights of the model as they are now."""
        self._frozen.refresh(model)

    def batches(
        self, pairs: Sequence[Pair], rules: PathRules | Rules, *, max_tokens: int, ratio: float
    ) -> Sequence[TokenBatch | SourceBatch]:
        """The pairs sorted by length: on a GPU as many at once as memory allows, of one of a few lengths."""
        if self.device.type != "cuda":
            return evaluation_batches(pairs, max_tokens=max_tokens)
        lengths = np.fromiter((len(source) for source, _ in pairs), np.int64, len(pairs))
        order, chosen = lengths.argsort(kind="stable"), list[SourceBatch]()
        while len(order):
            keys = padded_length(int(lengths[order[-1]]) + 1)
            size = FEW if len(order) <= FEW else self._size(keys, rules, int(ratio * keys) + 10)
            part, order = order[-size:], order[:-size]
            chosen.append(source_batch(pairs, part.tolist(), length=keys))
        return chosen[::-1]

    def _size(self, keys: int, rules: PathRules | Rules, longest: int) -> int:
        """How many sentences of so many tokens are searched at once."""
        if (keys, rules, longest) not in self._needs:
            source = torch.full((1, keys), EOS, device=self.device)
            state = self.model.init_state(self.model.encode(source, torch.tensor([keys], device=self.device)))
            self._needs[keys, rules, longest] = self._bytes(state, rules, longest)
        return self._fitting(self._needs[keys, rules, longest])

    def capacity(self, state: Any, rules: PathRules | Rules, longest: int) -> int:
        """How many sentences like that of a first `state` are searched at once, by the free memory of the device."""
        return self._fitting(self._bytes(state, rules, longest))

    def _fitting(self, each: int) -> int:
        """How many sentences of so many bytes are searched at once."""
        if self.device.type != "cuda":
            return SIZES[-1]
        free, _ = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return size_in(int(SHARE * free), each)

    def find(
        self,
        state: Any,
        rules: PathRules | Rules,
        last: Tensor,
        *,
        mask: Tensor | None = None,
        generator: torch.Generator | None = None,
        **read: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of sentences with these last steps [b], which lie on the host; `read` goes to `_reading`."""
        batch, longest, before = len(last), int(last.max()), self._allocated()
        search = self._search_for(state, rules, longest, batch, mask)
        options: dict[str, Any] = {"mask": mask} if isinstance(rules, Rules) else {"generator": generator}
        found: list[list[Hypothesis]] = search(
            state, batch=batch, bos=BOS, last=last.to(self.device), longest=longest,
            read=_reading(rules, **read), **options,
        )  # fmt: skip
        self._held += max(0, self._allocated() - before)
        return found

    def find_texts(
        self,
        source: Tensor,
        lengths: Tensor,
        rules: PathRules | Rules,
        last: Tensor,
        *,
        mask: Tensor | None = None,
        generator: torch.Generator | None = None,
        **read: Any,
    ) -> list[list[Hypothesis]]:
        """The same of sentences [b k] with these `lengths`; on a GPU the encoder is recorded with all that follows it.

        All tensors lie on the host.
        """
        if self.device.type != "cuda" or (isinstance(rules, PathRules) and rules.temperature is not None):
            state = self.model.init_state(self.model.encode(source.to(self.device), lengths.to(self.device)))
            mask = None if mask is None else mask.to(self.device)
            return self.find(state, rules, last, mask=mask, generator=generator, **read)
        batch, longest = len(last), int(last.max())
        rows = self._rows(batch)
        given = [source, lengths, last] if mask is None else [source, lengths, last, mask]
        padded = [_padded(tensor, rows, fill) for tensor, fill in zip(given, (EOS, 1, 0, True), strict=False)]
        key = (rules, room_for(longest), mask is None, *padded[0].shape)
        before = self._allocated()
        if key not in self._starts or self._starts[key].search.steps < longest:
            self._starts[key] = self._start_for(padded, rules, longest)
        start = self._starts[key]
        for place, tensor in zip(start.places, padded, strict=True):
            place.copy_(tensor, non_blocking=True)
        start.search.runner.run((-1, source.shape[1]), start.tick)
        found: list[list[Hypothesis]] = start.search.go(batch=batch, longest=longest, read=_reading(rules, **read))
        self._held += max(0, self._allocated() - before)
        return found

    def _allocated(self) -> int:
        if self.device.type != "cuda":
            return 0
        facts = torch.cuda.memory.memory_stats_as_nested_dict(self.device)  # memory_allocated takes ten times as long
        return int(facts["allocated_bytes"]["all"]["current"])

    def _rows(self, batch: int) -> int:
        """For how many sentences a search of `batch` has places."""
        return batch if self.device.type != "cuda" else fitting([*SIZES, batch], batch)

    def _start_for(self, given: Sequence[Tensor], rules: PathRules | Rules, longest: int) -> "_Start":
        places = [tensor.to(self.device) for tensor in given]
        source, lengths, last, *mask = places
        state = self.model.init_state(self.model.encode(source, lengths))
        search = self._search_for(state, rules, longest, len(source), mask[0] if mask else None)
        options: dict[str, Any] = {"mask": mask[0] if mask else None} if isinstance(rules, Rules) else {}

        def tick() -> None:
            state = self.model.init_state(self.model.encode(source, lengths))
            search.start(state, last, bos=BOS, **options)

        return _Start(search, places, tick)

    def _search_for(
        self, state: Any, rules: PathRules | Rules, longest: int, batch: int, mask: Tensor | None
    ) -> FixedSearch:
        """The search of states like this one; it is made where there is none yet."""
        steps = room_for(longest)
        if self.model.fixed_state(state, steps=steps) is None:
            steps = longest  # a model may have so many positions and no more
        if (first := self.model.fixed_state(state, steps=steps)) is None:
            cure = "set impl=plain"
            raise ConfigError("this model has no fixed shapes with these settings", got=f"{longest} steps", cure=cure)
        largest = self._rows(batch)
        sizes = (*(size for size in SIZES if size < largest), largest)
        shapes = tuple((tensor.shape[1:], tensor.dtype) for tensor in tensors(first))
        keys = None if mask is None or not isinstance(rules, Rules) else mask.shape[1]
        key = (rules, steps, sizes, keys, shapes)
        if key not in self._searches:
            made = FixedSearch(self.model, rules, state, sizes=sizes, steps=steps, keys=keys, runner=self._runner())
            self._searches = {**self._searches, key: made} if self.device.type == "cuda" else {key: made}
        return self._searches[key]

    def of_pictures(
        self,
        shown: Tensor,
        rules: PathRules | Rules,
        how: Any,
        longest: int,
        looking: Mapping[str, Any],
        told: Callable[[int], None] | None,
    ) -> list[list[Hypothesis]]:
        """The captions of what is shown, as many at a time as memory allows; `told` hears how many are done."""
        found: list[list[Hypothesis]] = []
        one = self.model.init_state(self.model.encode(shown[:1]), **looking)
        for chunk in torch.split(shown, self.capacity(one, rules, longest)):
            state = self.model.init_state(self.model.encode(chunk), **looking)
            last = torch.full((len(chunk),), longest)
            found += self.find(state, rules, last, sharpness=how.consensus, count=how.nbest)
            if told is not None:
                told(len(found))
        return found

    def _runner(self) -> AtOnce | Captured:
        if self.device.type != "cuda":
            return AtOnce()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        return Captured(self.device, pool=self._pool)

    def _bytes(self, state: Any, rules: PathRules | Rules, longest: int) -> int:
        """About what a sentence takes: its state twice, its trellis, and four times its logits in float32."""
        beams, steps = rules.beams if isinstance(rules, Rules) else 1, room_for(longest)
        first = self.model.fixed_state(state, steps=steps)
        kept = sum(tensor.nbytes for tensor in tensors(state if first is None else first))
        config = self.model.config
        words = getattr(config, "target_vocabulary", getattr(config, "vocabulary", 50_000))
        keys = max((tensor.shape[1] for tensor in tensors(state) if tensor.ndim > 2), default=1)
        return beams * (2 * kept + steps * (16 + 4 * keys) + 16 * words)


def _reading(
    rules: PathRules | Rules, *, sharpness: float | None = None, count: int | None = None
) -> dict[str, Any] | None:
    """How results of a beam are read: by consensus with a `sharpness`, and `count` of each sentence; a path has one."""
    return {"sharpness": sharpness, "count": count} if isinstance(rules, Rules) else None


def _padded(tensor: Tensor, rows: int, fill: int) -> Tensor:
    """With more rows, full of one number."""
    if len(tensor) == rows:
        return tensor
    return torch.cat([tensor, tensor.new_full((rows - len(tensor), *tensor.shape[1:]), fill)])


def rules_of(how: Any, forbidden: Sequence[int]) -> PathRules | Rules:
    """The rules of a search by its settings: a path where one beam is asked for, or a temperature; else a beam."""
    barred = frozenset(forbidden)
    if how.temperature is not None:
        return PathRules(EOS, how.min_steps, barred, how.temperature, how.top_k, how.top_p)
    if how.beams == 1 and how.nbest == 1 and not how.no_repeat:
        return PathRules(EOS, how.min_steps, barred)
    nbest = how.nbest if how.consensus is None else how.beams
    penalties = how.length_penalty, how.coverage_penalty
    return Rules(EOS, how.beams, nbest, how.min_steps, *penalties, how.no_repeat, barred)


def padded_length(length: int) -> int:
    """One of a few lengths: 8, 16, 24 … 64, 96, 128, 192 …

    >>> [padded_length(length) for length in (1, 8, 17, 33, 65, 130)]
    [8, 8, 24, 40, 96, 192]
    """
    size = 8
    while size < length:
        size += 8 if size < 64 else size // 2 if size & (size - 1) == 0 else size // 3
    return size


def size_in(memory: int, each: int) -> int:
    """The largest of `SIZES` that fits into so many bytes; one at least.

    >>> size_in(5000, 10)
    256
    """
    return max((size for size in SIZES if size * each <= memory), default=1)


def _dtype(model: nn.Module) -> torch.dtype | None:
    return next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), None)

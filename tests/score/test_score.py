"""What every score has in common: prepared keys, no memory in the module, and the dot form."""

import copy

import pytest
import torch
from examples_of import SCORE_EXAMPLES, scores, without_row
from table import cases

from regard.base import ConfigError, ShapeError
from regard.score import SCORES, Additive, Concat, Cosine, Distance, General, Location, LocationAware, Prepared, Score

MAKE = scores(
    4, cosine_learned=lambda: Cosine(3.0, learned=True), location_aware_small=lambda: LocationAware(4, 4, 6, width=3)
)
every_score = pytest.mark.parametrize("name", MAKE)


def test_every_score_of_the_menu_has_a_row_on_its_page() -> None:
    missing = without_row(SCORES, SCORE_EXAMPLES.values())
    assert not missing, f"docs/scores.md has no row for {', '.join(missing)}, so the tests of all scores leave it out"


@every_score
def test_prepare_once_equals_raw_keys(name: str) -> None:
    score, query, keys = MAKE[name](), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    prepared = score.prepare(keys)
    assert isinstance(prepared, Prepared)
    torch.testing.assert_close(score(query, prepared), score(query, keys), rtol=0, atol=0)
    torch.testing.assert_close(score(query[:, :1], prepared), score(query, keys)[:, :1])


@every_score
def test_nothing_is_remembered(name: str) -> None:
    score, query, keys = MAKE[name](), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    state = copy.deepcopy(score.state_dict())
    attributes = {key: id(value) for key, value in vars(score).items()}
    parts = {part: {key: id(value) for key, value in part._parameters.items()} for part in score.modules()}
    score(query, score.prepare(keys))
    assert {key: id(value) for key, value in vars(score).items()} == attributes
    assert {part: {key: id(value) for key, value in part._parameters.items()} for part in score.modules()} == parts
    assert list(score.buffers()) == []
    assert score.state_dict().keys() == state.keys()
    assert all(torch.equal(score.state_dict()[key], state[key]) for key in state)


@every_score
def test_one_module_serves_two_memories_in_turn(name: str) -> None:
    score = MAKE[name]()
    other = copy.deepcopy(score)
    first, second = torch.randn(5, 4), torch.randn(3, 4)
    one, two = score.prepare(first), score.prepare(second)
    for query in torch.randn(3, 1, 4):
        torch.testing.assert_close(score(query, one), other(query, first))
        torch.testing.assert_close(score(query, two), other(query, second))


@pytest.mark.parametrize("name", SCORE_EXAMPLES)
def test_fused_form_is_what_its_page_says_and_equals_compare(name: str) -> None:
    example, query = SCORE_EXAMPLES[name], torch.randn(2, 3, 4)
    score = example(4)
    keys = score.prepare(torch.randn(2, 5, 4)).keys
    assert (score.is_dot, score.is_additive) == (example.fused == "dot", example.fused == "additive")
    if score.is_dot:
        dot_form = score.as_dot(query, keys)
        torch.testing.assert_close(dot_form.scale * dot_form.query @ dot_form.keys.mT, score.compare(query, keys))
    if score.is_additive:
        form = score.as_additive(query, keys)
        sums = torch.tanh(form.query.unsqueeze(-2) + form.keys.unsqueeze(-3))
        torch.testing.assert_close(sums @ form.v, score.compare(query, keys))


@pytest.mark.parametrize("name", SCORE_EXAMPLES)
def test_widths_are_what_its_page_says(name: str) -> None:
    example, query, keys = SCORE_EXAMPLES[name], torch.randn(2, 3, 4), torch.randn(2, 5, 6)
    if example.any_widths:
        assert example(4, 6)(query, keys).shape == (2, 3, 5)
    else:
        with pytest.raises(ShapeError):
            example(4)(query, keys)


@cases("key_dim", [4, 6])
@pytest.mark.parametrize("name", [name for name in SCORES if name != "projected"])
def test_a_score_is_built_for_any_widths(name: str, key_dim: int) -> None:
    score = SCORES[name].for_widths(4, key_dim, hidden_dim=3, max_keys=9)
    assert score(torch.randn(2, 3, 4), torch.randn(2, 5, key_dim)).shape == (2, 3, 5)


@every_score
def test_gradients_agree_with_finite_differences(name: str) -> None:
    score = MAKE[name]().double()
    names, parameters = zip(*score.named_parameters(), strict=True) if list(score.parameters()) else ((), ())
    query = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    history = {"previous": torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)} if score.needs else {}

    def call(query: torch.Tensor, keys: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        parts = dict(zip(names, values, strict=True))
        return torch.func.functional_call(score, parts, (query, keys), history)

    assert torch.autograd.gradcheck(call, (query, keys, *parameters))


@every_score
@cases("lead", [(), (2,), (2, 3), (2, 1, 2)])
def test_leading_axes_equal_a_loop(name: str, lead: tuple[int, ...]) -> None:
    score, query, keys = MAKE[name](), torch.randn(*lead, 3, 4), torch.randn(*lead, 5, 4)
    rows = [score(q, k) for q, k in zip(query.reshape(-1, 3, 4), keys.reshape(-1, 5, 4), strict=True)]
    torch.testing.assert_close(score(query, keys), torch.stack(rows).reshape(*lead, 3, 5))


@every_score
def test_permuting_keys_permutes_scores_unless_their_place_counts(name: str) -> None:
    score, query, keys, order = MAKE[name](), torch.randn(3, 4), torch.randn(5, 4), torch.tensor([1, 2, 3, 4, 0])
    permuted, expected = score(query, keys[order]), score(query, keys)[:, order]
    assert torch.allclose(permuted, expected, rtol=1e-4, atol=1e-5) != score.depends_on_place


@every_score
@cases("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_scores_are_formed_in_full_precision(name: str, dtype: torch.dtype) -> None:
    score = MAKE[name]().to(dtype)
    query, keys = torch.randn(3, 4, dtype=dtype), torch.randn(5, 4, dtype=dtype)
    assert score(query, keys).dtype == torch.promote_types(dtype, torch.float32)


def test_a_new_score_must_define_compare() -> None:
    with pytest.raises(NotImplementedError):
        Score()(torch.zeros(1, 2), torch.zeros(1, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: General(0, 4),
        lambda: General(4, 0),
        lambda: Additive(4, 4, 0),
        lambda: Concat(-1, 4, 4),
        lambda: Location(4, 0),
        lambda: LocationAware(4, 4, 4, filters=0),
        lambda: LocationAware(4, 4, 4, width=4),
        lambda: LocationAware(4, 4, 4, width=-1),
        lambda: Distance("cubic"),
        lambda: Distance(bandwidth=0.0),
        lambda: Distance(bandwidth=float("nan")),
    ],
)
def test_settings_out_of_range_are_refused(make: type) -> None:
    with pytest.raises(ConfigError):
        make()


@every_score
def test_repr_names_the_class(name: str) -> None:
    score = MAKE[name]()
    assert repr(score).startswith(type(score).__name__ + "(")


def test_a_score_that_needs_arguments_says_that_its_name_is_not_enough() -> None:
    class Strange(Score):
        def __init__(self, size: int) -> None:
            super().__init__()

    with pytest.raises(ConfigError, match=r"Strange cannot be built from its name: .* let it define for_widths"):
        Strange.for_widths(4, 4, hidden_dim=3, max_keys=9)

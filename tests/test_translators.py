"""Every translation model: steps equal the whole pass, and neither padding, batch nor beam changes a result."""

from dataclasses import fields

import pytest
import torch
from table import cases

from regard.align import ALIGNS
from regard.attention import trace
from regard.decode import beam_search, greedy, pick
from regard.models import MODELS as ALL_MODELS
from regard.models import Translator
from regard.score import SCORES

BOS, EOS = 1, 2
WORDS = {"source_vocabulary": 11, "target_vocabulary": 11}
VARIANTS: dict[str, list[dict[str, object]]] = {  # of models that are tested in more than one small size
    "gnmt": [
        {"embed_dim": 6, "hidden_dim": 8, "align_dim": 7, "encoder_layers": 4, "decoder_layers": 4, **variant}
        for variant in (
            {},
            {"score": "dot", "align": "sparsemax", "residual_from": 4},
            {"score": "location_aware", "align": "monotonic", "encoder_layers": 1, "decoder_layers": 1},
        )
    ],
    "convs2s": [
        {"embed_dim": 6, "dim": 8, "encoder_layers": 3, "decoder_layers": 2, "output_dim": 5, "max_positions": 16}
        | variant
        for variant in (
            {},
            {"kernel": 4, "score": "additive", "align": "entmax"},
            {"kernel": 1, "score": "general", "align": "monotonic"},
            {"kernel": 5, "align": "local_predictive"},
        )
    ],
    "lstmn_translator": [
        {"embed_dim": 6, "hidden_dim": 8, "align_dim": 10, "layers": 2, **variant}
        for variant in (
            {},
            {"fusion": "shallow", "tape": 3},
            {"score": "dot", "align": "sparsemax", "intra_score": "location_aware", "intra_align": "monotonic"},
        )
    ],
    "transformer": [
        {"dim": 8, "hidden_dim": 12, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, **variant}
        for variant in (
            {},
            {"pre_norm": True, "tie": "output", "position": "learned"},
            {"pre_norm": True, "tie": "none", "position": "rotary"},
            {"position": "alibi", "score": "additive", "align": "entmax"},
            {"position": "relative", "align": "monotonic"},
        )
    ],
}
MODELS = {name: paper for name, paper in ALL_MODELS.items() if issubclass(paper.model, Translator)}


def small(config: type) -> dict[str, object]:
    """Settings of any model in a small size: widths that differ, and two of what may be many."""
    names = [field.name for field in fields(config)]
    widths = {name: 6 + 2 * place for place, name in enumerate(name for name in names if name.endswith("dim"))}
    return widths | {name: 2 for name in names if name.endswith("layers") or name == "num_heads"}


SETTINGS = {name: VARIANTS.get(name) or [small(paper.config)] for name, paper in MODELS.items()}
CASES = {f"{name}-{i}": (name, settings) for name, variants in SETTINGS.items() for i, settings in enumerate(variants)}
ATTENDING = [name for name, paper in MODELS.items() if "align" in paper.config.__dataclass_fields__]
every_model = pytest.mark.parametrize(  # of many variants the first
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (not case.endswith("-0"))) for case in CASES]
)


def attends(case: str) -> bool:
    return CASES[case][0] in ATTENDING


def build(case: str, **changes: object) -> Translator:
    name, settings = CASES[case]
    paper = MODELS[name]
    model = paper.model(paper.config(**WORDS, **settings | changes)).double().eval()
    for parameter in model.parameters():  # far from the small published start, so that differences show
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source, lengths = torch.randint(4, 11, (3, 6)), torch.tensor([6, 3, 1])
    source = source.masked_fill(torch.arange(6) >= lengths.unsqueeze(1), 0)
    inputs = torch.cat([torch.full((3, 1), BOS), torch.randint(4, 11, (3, 4))], 1)
    return source, lengths, inputs


def test_variants_are_of_models_on_the_menu() -> None:
    assert set(VARIANTS) <= set(MODELS)


@every_model
def test_steps_equal_the_whole_pass(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    whole = model(source, lengths, inputs, need_weights=True)
    assert whole.logits.shape == (3, 5, 11)
    assert (whole.weights is not None) == attends(case)
    state = model.init_state(model.encode(source, lengths))
    for t in range(5):
        logits, state, weights = model.step(inputs[:, t], state)
        torch.testing.assert_close(logits, whole.logits[:, t])
        assert (weights is not None) == attends(case)
        if attends(case):
            assert weights.shape == (3, 6)
            torch.testing.assert_close(weights, whole.weights[:, t])


def test_all_models_attend_but_the_two_that_came_before_attention() -> None:
    assert set(MODELS) - set(ATTENDING) == {"cho", "sutskever"}


@every_model
def test_weights_come_when_they_are_asked_for_and_change_no_logits(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    plain, asked = model(source, lengths, inputs), model(source, lengths, inputs, need_weights=True)
    assert plain.weights is None
    torch.testing.assert_close(asked.logits, plain.logits)


@every_model
def test_search_gives_the_weights_of_what_it_found(case: str) -> None:
    model, (source, lengths, _) = build(case), batch()
    state = model.init_state(model.encode(source, lengths))
    options = {"batch": 3, "bos": BOS, "eos": EOS, "max_steps": 8, "min_steps": 3}
    for found in (greedy(model, state, **options), [best[0] for best in beam_search(model, state, beams=3, **options)]):
        for i, hypothesis in enumerate(found):
            assert (hypothesis.weights is not None) == attends(case)
            if attends(case):
                inputs = torch.tensor([[BOS, *hypothesis.tokens]])[:, : hypothesis.length]
                whole = model(source[i : i + 1], lengths[i : i + 1], inputs, need_weights=True)
                torch.testing.assert_close(hypothesis.weights, whole.weights[0])


@every_model
def test_every_model_says_which_layers_look_at_the_source(case: str) -> None:
    """Traced by that pattern, every layer gives weights over the source, in the whole pass and in steps."""
    model, (source, lengths, inputs) = build(case), batch()
    with trace(model, may_be_empty=True) as everything, torch.no_grad():
        whole = model(source, lengths, inputs, need_weights=True)
    with trace(model, layers=model.source_layers, may_be_empty=True) as seen, torch.no_grad():
        model(source, lengths, inputs)
    with trace(model, layers=model.source_layers, may_be_empty=True) as stepped, torch.no_grad():
        state = model.init_state(model.encode(source, lengths))
        for t in range(inputs.shape[1]):
            state = model.step(inputs[:, t], state).state
    assert bool(seen) == attends(case)
    assert list(stepped) == list(seen)
    others = {name: record.weights for name, record in everything.items() if name not in seen}
    # self-attention, [t t] or [k k]; of an LSTMN, whose last word nobody attends to, a column less
    assert all(weights.shape[-2] - weights.shape[-1] in (0, 1) for weights in others.values())
    padding = torch.arange(6) >= lengths.unsqueeze(1)
    for name, record in seen.items():
        weights = torch.from_numpy(record.weights)
        assert weights.shape == ((3, 2, 5, 6) if record.heads else (3, 5, 6)), name
        assert (weights.movedim(-1, 1)[padding] == 0).all()
        torch.testing.assert_close(torch.from_numpy(stepped[name].weights), weights)
    if attends(case) and len(seen) == 1:
        torch.testing.assert_close(weights, whole.weights)


PARTS = [("score", name) for name in SCORES if name != "projected"] + [("align", name) for name in ALIGNS]


@pytest.mark.parametrize(("setting", "part"), PARTS, ids=lambda value: value)
@cases("name", ATTENDING)
def test_any_score_and_any_alignment_by_a_setting(name: str, setting: str, part: str) -> None:
    paper, (source, lengths, inputs) = MODELS[name], batch()
    inputs = inputs[:, :3]  # for time
    model = paper.model(paper.config(**WORDS, **SETTINGS[name][0] | {setting: part})).double().eval()
    whole = model(source, lengths, inputs, need_weights=True)
    assert torch.isfinite(whole.logits).all()
    state = model.init_state(model.encode(source, lengths))
    for t in range(3):
        logits, state, weights = model.step(inputs[:, t], state)
        torch.testing.assert_close(logits, whole.logits[:, t])
        assert weights.shape == (3, 6)
        assert (weights[torch.arange(6) >= lengths.unsqueeze(1)] == 0).all()
        torch.testing.assert_close(weights, whole.weights[:, t])


@every_model
def test_padding_and_batch_change_nothing(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    whole = model(source, lengths, inputs)
    longer = torch.cat([source, torch.full((3, 4), 7)], 1)  # junk, not even PAD
    torch.testing.assert_close(model(longer, lengths, inputs).logits, whole.logits)
    for i, length in enumerate(lengths.tolist()):
        alone = model(source[i : i + 1, :length], lengths[i : i + 1], inputs[i : i + 1])
        torch.testing.assert_close(alone.logits, whole.logits[i : i + 1])


@every_model
def test_later_words_do_not_change_earlier_predictions(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    changed = inputs.clone()
    changed[:, 3:] = 8
    whole, other = model(source, lengths, inputs).logits, model(source, lengths, changed).logits
    assert torch.equal(other[:, :3], whole[:, :3])
    assert not torch.equal(other[:, 3:], whole[:, 3:])


@every_model
def test_search_does_not_depend_on_the_batch(case: str) -> None:
    model, (source, lengths, _) = build(case), batch()
    state = model.init_state(model.encode(source, lengths))
    options = {"bos": BOS, "eos": EOS, "max_steps": 5}
    together = beam_search(model, state, batch=3, beams=4, **options)
    first = greedy(model, state, batch=3, **options)
    assert [h[0].tokens for h in beam_search(model, state, batch=3, beams=1, **options)] == [h.tokens for h in first]
    for i in range(3):
        alone = beam_search(model, pick(state, torch.tensor([i])), batch=1, beams=4, **options)[0][0]
        assert alone.tokens == together[i][0].tokens
        assert alone.log_prob == pytest.approx(together[i][0].log_prob, abs=1e-9)


@every_model
def test_score_of_a_hypothesis_is_the_teacher_forced_one(case: str) -> None:
    model, (source, lengths, _) = build(case), batch()
    state = model.init_state(model.encode(source, lengths))
    best = beam_search(model, state, batch=3, beams=3, bos=BOS, eos=EOS, max_steps=8)
    for i, (hypothesis, *_) in enumerate(best):
        words = [*hypothesis.tokens, EOS] if hypothesis.finished else hypothesis.tokens
        inputs = torch.tensor([[BOS, *words[:-1]]])
        logits = model(source[i : i + 1], lengths[i : i + 1], inputs).logits.log_softmax(-1)
        forced = logits[0].gather(-1, torch.tensor(words).unsqueeze(-1)).sum()
        assert hypothesis.log_prob == pytest.approx(forced.item(), abs=1e-8)


@every_model
def test_every_parameter_learns(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    model.train()
    model(source, lengths, inputs).logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


# ── models whose whole pass is not a loop over its steps ────────────────────────────────────────────────────────────

AT_ONCE: list[tuple[str, dict[str, object]]] = [
    ("bahdanau-0", {}),
    ("bahdanau-0", {"align": "sparsemax"}),
    ("bahdanau-0", {"align": "local_predictive"}),
    ("bahdanau-0", {"score": "location_aware"}),
    ("bahdanau-0", {"score": "dot"}),
    ("luong-0", {}),
    ("luong-0", {"input_feeding": False}),
    ("luong-0", {"score": "location_aware", "layers": 1}),
    ("luong-0", {"score": "dot"}),
    ("lstmn_translator-0", {}),
    ("lstmn_translator-0", {"fusion": "shallow", "layers": 1}),
    ("lstmn_translator-0", {"score": "location_aware", "intra_score": "general", "tape": 2}),
]
whole_passes = pytest.mark.parametrize("case", ["bahdanau-0", "luong-0"])


@pytest.mark.parametrize(("case", "changes"), AT_ONCE, ids=str)
def test_the_whole_pass_learns_as_the_steps_do(case: str, changes: dict[str, object]) -> None:
    model, (source, lengths, inputs) = build(case, **changes), batch()
    whole = model(source, lengths, inputs)
    assert whole.weights is None
    state, logits = model.init_state(model.encode(source, lengths)), []
    for t in range(5):
        step = model.step(inputs[:, t], state)
        state = step.state
        logits.append(step.logits)
    pull, wanted = torch.randn_like(whole.logits), list(model.parameters())
    found = torch.autograd.grad(whole.logits, wanted, pull)
    expected = torch.autograd.grad(torch.stack(logits, 1), wanted, pull)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-11)


@whole_passes
def test_a_trace_sees_the_whole_pass(case: str) -> None:
    model, (source, lengths, inputs) = build(case), batch()
    with trace(model) as seen, torch.no_grad():
        model(source, lengths, inputs)
    weights = model(source, lengths, inputs, need_weights=True).weights
    torch.testing.assert_close(torch.from_numpy(seen["attention"].weights), weights, check_dtype=False)


@whole_passes
def test_the_whole_pass_under_autocast(case: str) -> None:
    model, (source, lengths, inputs) = build(case).float(), batch()
    try:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(source, lengths, inputs).logits
    except RuntimeError as error:
        if "primitive descriptor" not in str(error):
            raise
        pytest.skip("torch's LSTM has no bfloat16 on this processor")
    assert logits.dtype == torch.bfloat16
    logits.float().square().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    torch.testing.assert_close(logits.float(), model(source, lengths, inputs).logits, rtol=0.1, atol=0.1)

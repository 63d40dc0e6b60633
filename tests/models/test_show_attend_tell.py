"""Show, Attend and Tell: the equations by hand, soft and hard, and what must not change a caption."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.base import ConfigError, ShapeError
from regard.decode import beam_search, greedy, pick
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig, show_attend_tell_flickr8k

BOS, EOS = 1, 2
SMALL: dict[str, Any] = {"feature_dim": 5, "embed_dim": 6, "hidden_dim": 8, "align_dim": 4}
KINDS: list[dict[str, Any]] = [
    {},
    {"tied": True, "gate": False, "project_dim": 7},
    {"align": "sparsemax", "score": "general"},
    {"align": "sample"},
    {"align": "sample", "at_test": "argmax"},
    {"mean_pooled": True},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def build(**settings: Any) -> ShowAttendTell:
    model = ShowAttendTell(ShowAttendTellConfig(11, **SMALL | settings)).double().eval()
    for parameter in model.parameters():  # far from the start, so that differences show
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch() -> tuple[Tensor, Tensor]:
    inputs = torch.cat([torch.full((3, 1), BOS), torch.randint(4, 11, (3, 4))], 1)
    return torch.randn(3, 9, 5, dtype=torch.double), inputs


def test_the_equations() -> None:
    model, (features, inputs) = build(), batch()
    attention, size = model.attention, 8
    assert attention is not None
    out = model(features, inputs)
    mean = features.mean(1)
    hidden, cell = model.start_hidden(mean), model.start_cell(mean)
    for t in range(5):
        score = attention.score
        mixed = torch.tanh(score.to_query(hidden).unsqueeze(1) + score.to_keys(features))  # type: ignore[operator, union-attr]
        weights = (mixed @ score.v).softmax(-1)  # type: ignore[union-attr]
        gate = torch.sigmoid(hidden @ model.gate.weight.T + model.gate.bias)  # type: ignore[union-attr]
        assert gate.shape == (3, 1)  # β is one number
        context = gate * (weights.unsqueeze(-1) * features).sum(1)
        word = model.embedding.weight[inputs[:, t]]
        table = torch.cat([model.word_gates.weight, model.state_gates.weight], 1)
        gates = torch.cat([word, hidden, context], 1) @ table.T + model.word_gates.bias
        i, f, g, o = (gates[:, n * size : (n + 1) * size] for n in range(4))
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        deep = torch.tanh(word + model.from_hidden(hidden) + model.from_context(context))
        torch.testing.assert_close(out.logits[:, t], model.to_logits(deep))
        torch.testing.assert_close(out.weights[:, t], weights)


@every_kind
def test_steps_equal_the_whole_pass(kind: dict[str, Any]) -> None:
    model, (features, inputs) = build(**kind), batch()
    whole = model(features, inputs)
    assert whole.logits.shape == (3, 5, 11)
    state = model.init_state(model.encode(features))
    for t in range(5):
        logits, state, weights = model.step(inputs[:, t], state)
        torch.testing.assert_close(logits, whole.logits[:, t])
        assert (weights is None) == ("mean_pooled" in kind)
        if weights is not None:
            torch.testing.assert_close(weights, whole.weights[:, t])
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, dtype=torch.double))


@every_kind
def test_search_does_not_depend_on_the_batch(kind: dict[str, Any]) -> None:
    model, (features, _) = build(**kind), batch()
    state = model.init_state(model.encode(features))
    options: dict[str, Any] = {"bos": BOS, "eos": EOS, "max_steps": 8}
    together = beam_search(model, state, batch=3, beams=4, **options)
    first = greedy(model, state, batch=3, **options)
    assert [h[0].tokens for h in beam_search(model, state, batch=3, beams=1, **options)] == [h.tokens for h in first]
    for i in range(3):
        alone = beam_search(model, pick(state, torch.tensor([i])), batch=1, beams=4, **options)[0][0]
        assert alone.tokens == together[i][0].tokens
        assert alone.log_prob == pytest.approx(together[i][0].log_prob)


@every_kind
def test_places_may_be_permuted(kind: dict[str, Any]) -> None:
    model, (features, inputs) = build(**kind), batch()
    order = torch.randperm(9)
    whole, mixed = model(features, inputs), model(features[:, order], inputs)
    torch.testing.assert_close(mixed.logits, whole.logits)
    if whole.weights is not None:
        torch.testing.assert_close(mixed.weights, whole.weights[..., order])


def test_later_words_do_not_change_earlier_predictions() -> None:
    model, (features, inputs) = build(), batch()
    changed = inputs.clone()
    changed[:, 3:] = 8
    assert torch.equal(model(features, inputs).logits[:, :3], model(features, changed).logits[:, :3])


def test_the_twin_sees_the_mean_alone() -> None:
    model, (features, inputs) = build(mean_pooled=True), batch()
    blurred = features.mean(1, keepdim=True).expand_as(features)
    torch.testing.assert_close(model(blurred, inputs).logits, model(features, inputs).logits)
    attending = build()
    assert not torch.allclose(attending(blurred, inputs).logits, attending(features, inputs).logits)


# ── hard ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sampled_context_is_one_place() -> None:
    model, (features, inputs) = build(align="sample", semi_sampling=0.0, gate=False).train(), batch()
    contexts: list[Tensor] = []
    model.from_context.register_forward_pre_hook(lambda module, given: contexts.append(given[0]))
    out = model(features, inputs)
    assert ((out.weights == 0) | (out.weights == 1)).all()
    assert (out.weights.sum(-1) == 1).all()
    chosen = out.weights.argmax(-1)
    for row in range(3):
        assert torch.equal(contexts[0][row], features[row, chosen[row]])
    torch.testing.assert_close(out.log_prob, out.expected.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).log())
    torch.testing.assert_close(out.entropy, -(out.expected * out.expected.log()).sum(-1))


def test_half_of_the_captions_see_what_is_expected() -> None:
    model = build(align="sample").train()
    features, inputs = torch.randn(200, 3, 5, dtype=torch.double), torch.full((200, 2), 5)
    out = model(features, inputs)
    sampled = (out.weights.amax(-1) == 1).all(1)  # a coin for a caption, not for a word
    soft = (out.weights == out.expected).flatten(1).all(1)
    assert (sampled ^ soft).all()
    assert 70 < sampled.sum() < 130
    assert (out.log_prob[soft] == 0).all()
    assert (out.log_prob[sampled] < 0).all()
    everybody = build(align="sample", semi_sampling=1.0).train()(features, inputs)
    assert torch.equal(everybody.weights, everybody.expected)


def test_captions_in_pairs_differ_by_their_places() -> None:
    noisy = {"dropout": 0.5, "embed_dropout": 0.3, "feature_dropout": 0.3}
    model = build(align="sample", **noisy).train()
    features, inputs = torch.randn(5, 3, 5, dtype=torch.double), torch.randint(4, 11, (5, 1, 2, 4)).expand(5, 2, 2, 4)
    out = model(features, inputs.reshape(20, 4), in_pairs=True)
    expected, drawn = out.weights.view(5, 2, 2, 4, 3).unbind(1)
    assert (drawn.amax(-1) == 1).all()
    assert (expected.amax(-1) < 1).all()
    assert (out.log_prob.view(5, 2, 2, 4)[:, 0] == 0).all()
    assert (out.log_prob.view(5, 2, 2, 4)[:, 1] < 0).all()
    one_place = torch.randn(5, 1, 5, dtype=torch.double)  # nothing to choose: both readings are the same, dropout too
    first, second = model(one_place, inputs.reshape(20, 4), in_pairs=True).logits.view(5, 2, 2, 4, 11).unbind(1)
    torch.testing.assert_close(first, second)
    assert not torch.allclose(
        first, model(one_place, inputs.reshape(20, 4), in_pairs=True).logits.view(5, 2, 2, 4, 11)[:, 0]
    )
    with pytest.raises(ConfigError, match="hard"):
        build()(features, inputs.reshape(20, 4), in_pairs=True)


def test_no_gradient_goes_through_a_sample() -> None:
    model, (features, inputs) = build(align="sample", semi_sampling=0.0).train(), batch()
    out = model(features, inputs)
    score = model.attention.score  # type: ignore[union-attr]
    [through] = torch.autograd.grad(out.logits.sum(), score.v, retain_graph=True, allow_unused=True)
    assert through is None or (through == 0).all()
    [by_log] = torch.autograd.grad(out.log_prob.sum(), score.v)
    assert by_log.abs().sum() > 0


def test_evaluation_of_hard_attention() -> None:
    features, inputs = batch()
    expected, best = (build(align="sample", at_test=how) for how in ("expected", "argmax"))
    best.load_state_dict(expected.state_dict())
    soft, hard = expected(features, inputs), best(features, inputs)
    assert soft.log_prob is None
    assert torch.equal(expected(features, inputs).logits, soft.logits)  # no chance
    assert ((hard.weights == 0) | (hard.weights == 1)).all()
    assert torch.equal(hard.weights[:, 0].argmax(-1), soft.weights[:, 0].argmax(-1))
    assert (expected.at_test, best.at_test, build().at_test) == ("expected", "argmax", None)


def test_where_to_look_can_be_said_for_one_evaluation() -> None:
    """The whole pass and the steps; the model is as it was."""
    features, inputs = batch()
    model = build(align="sample")
    other = build(align="sample", at_test="argmax")
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(features, inputs, at_test="argmax").logits, other(features, inputs).logits)
    assert torch.equal(other(features, inputs, at_test="expected").logits, model(features, inputs).logits)
    steps = [made.step(inputs[:, 0], made.init_state(made.encode(features), at_test=how))
             for made, how in ((model, "argmax"), (other, None))]  # fmt: skip
    assert torch.equal(steps[0].logits, steps[1].logits)
    assert steps[0].weights is not None
    assert ((steps[0].weights == 0) | (steps[0].weights == 1)).all()
    assert model.config.at_test == "expected"
    with pytest.raises(ConfigError, match="only hard attention chooses where to look: got places='argmax'"):
        build()(features, inputs, at_test="argmax")


def test_only_hard_attention_has_a_baseline() -> None:
    assert "baseline.value" in build(align="sample").state_dict()
    assert not any("baseline" in name for name in build().state_dict())


# ── several captions of a picture ───────────────────────────────────────────────────────────────────────────────────


@every_kind
def test_captions_share_a_picture(kind: dict[str, Any]) -> None:
    model, (features, inputs) = build(**kind), batch()
    several = torch.cat([inputs, inputs.flip(0)])[[0, 3, 1, 4, 2, 5]]  # rows 2p and 2p + 1 are of picture p
    shared, apart = model(features, several), model(features.repeat_interleave(2, 0), several)
    for name in ("logits", "weights", "expected"):
        one, other = getattr(shared, name), getattr(apart, name)
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)
    gradients = []
    for out in (shared, apart):
        model.zero_grad()
        out.logits.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_shared_pictures_are_encoded_once() -> None:
    model, (features, inputs) = build(project_dim=7, feature_dropout=0.5).train(), batch()
    assert model.project is not None
    seen: list[Tensor] = []
    model.project.register_forward_hook(lambda module, given, out: seen.append(out))
    out = model(features, inputs.repeat_interleave(4, 0))
    assert [len(places) for places in seen] == [3]
    assert out.logits.shape == (12, 5, 11)
    torch.testing.assert_close(out.weights[0], out.weights[3])  # the same words, places and dropout of places


def test_hard_attention_draws_for_each_caption() -> None:
    model = build(align="sample").train()
    features, inputs = torch.randn(20, 9, 5, dtype=torch.double), torch.full((200, 2), 5)
    out = model(features, inputs)
    assert out.weights.shape == (200, 2, 9)
    assert out.log_prob.shape == out.entropy.shape == (200, 2)
    sampled = (out.weights.amax(-1) == 1).all(1)
    assert 70 < sampled.sum() < 130
    by_picture = sampled.view(20, 10)
    assert (by_picture.any(1) & ~by_picture.all(1)).sum() > 15  # a coin for a caption, not for a picture
    assert (out.log_prob[~sampled] == 0).all()
    assert (out.log_prob[sampled] < 0).all()
    first = out.expected[:, 0].view(20, 10, 9)
    torch.testing.assert_close(first, first[:, :1].expand_as(first))  # rows of a picture stand together
    assert not torch.allclose(first[0], first[1])


# ── the rest ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tied_words() -> None:
    tied, free = build(tied=True), build()
    assert tied.to_logits.weight is tied.embedding.weight
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, free)]
    assert count[1] - count[0] == 11 * 6


def test_the_count_of_the_paper() -> None:
    """T: 4n(m + n + D + 1); f_att; two MLPs; L_h, L_z, L_o; β; E."""
    published = show_attend_tell_flickr8k(10_000)
    assert (published.feature_dim, published.embed_dim, published.align, published.gate) == (512, 512, "softmax", True)
    n, m, d, a, v = 24, 16, 10, 12, 30
    config = replace(published, hidden_dim=n, embed_dim=m, feature_dim=d, align_dim=a, vocabulary=v)
    start = d * d + d + d * n + n
    wanted = 4 * n * (m + n + d + 1) + a * (n + d + 1) + 2 * start + (n + 1) * m + d * m + (m + 1) * v + n + 1 + v * m
    assert sum(p.numel() for p in ShowAttendTell(config).parameters()) == wanted


def test_half_precision_runs_and_keeps_its_cell() -> None:
    model, (features, inputs) = build(dropout=0.0).float(), batch()
    with torch.autocast("cpu", torch.bfloat16):
        out = model.train()(features.half(), inputs)
        state = model.init_state(model.encode(features.half()))
    assert (state.hidden.dtype, state.cell.dtype) == (torch.bfloat16, torch.float32)
    out.logits.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(model.eval()(features.half(), inputs).logits, out.logits.float(), atol=0.2, rtol=0.1)


def test_an_encoder_inside() -> None:
    config = ShowAttendTellConfig(11, **SMALL | {"feature_dim": 16}, encoder="efficientnet_lite0", encoder_stage=1)
    model = ShowAttendTell(config).train()
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    out = model(images, torch.tensor([[1, 5], [1, 6]]))
    assert out.weights.shape == (2, 2, 16)
    out.logits.sum().backward()
    assert model.encoder.module.stem.weight.grad.abs().sum() > 0  # type: ignore[union-attr]
    assert not model.encoder.module.stem_norm.training  # type: ignore[union-attr]
    assert model.rates == {"encoder.": 0.1}
    assert build().rates == {}


def test_early_stages_do_not_learn() -> None:
    config = ShowAttendTellConfig(
        11, **SMALL | {"feature_dim": 24}, encoder="efficientnet_lite0", encoder_stage=2, encoder_frozen=2
    )
    model = ShowAttendTell(config).train()
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    model(images, torch.tensor([[1, 5]] * 6)).logits.sum().backward()
    for name, parameter in model.named_parameters():
        early = name.startswith(("encoder.module.stem", "encoder.module.blocks.0."))
        assert parameter.requires_grad != early
        assert (parameter.grad is None) == early
    assert "encoder.module.stem.weight" in model.state_dict()
    assert len(model.state_dict()) == len(ShowAttendTell(replace(config, encoder_frozen=0)).state_dict())


def test_wrong_calls() -> None:
    model, (features, inputs) = build(), batch()
    with pytest.raises(
        ShapeError, match="do not go evenly into pictures: got 3 captions of 2 pictures; expected the same"
    ):
        model(features[:2], inputs)
    with pytest.raises(ShapeError, match="features have the wrong width: got 4; expected 5"):
        model(features[..., :4], inputs)
    with pytest.raises(ShapeError, match="this model has no encoder"):
        model(torch.zeros(3, 3, 8, 8), inputs)
    for settings, message in (
        ({"encoder": "vgg"}, r"model\.encoder: got 'vgg'"),
        (
            {"encoder_frozen": 2},
            r"model\.encoder_frozen: got 2; expected 0 without an encoder\. Try: set task\.finetune",
        ),
        ({"encoder": "efficientnet_lite0", "encoder_stage": 3, "encoder_frozen": 4}, "frozen: got 4; expected 0 to 3"),
        ({"semi_sampling": 1.5}, r"model\.semi_sampling: got 1\.5"),
        ({"align": "monotonic"}, "no order: got Monotonic, which needs previous"),
        ({"score": "location_aware"}, "no order: got LocationAware"),
        ({"align": "softmix"}, "unknown align"),
    ):
        with pytest.raises(ConfigError, match=message):
            build(**settings)


@pytest.mark.bare
def test_wrong_place_to_look() -> None:
    with pytest.raises(ConfigError, match=r"model\.at_test: got 'sample'"):
        build(at_test="sample")
    with pytest.raises(ConfigError, match="places: got 'best'; expected 'expected' or 'argmax'"):
        build(align="sample")(*batch(), at_test="best")


@pytest.mark.parametrize("at_test", ["expected", "argmax"])
def test_a_trace_sees_hard_attention(at_test: str) -> None:
    """Under the name of the layer, word after word: in training where it looked, drawn or not."""
    model, (features, inputs) = build(align="sample", at_test=at_test, semi_sampling=0.5), batch()
    for training in (True, False):
        model.train(training)
        with trace(model) as seen:
            out = model(features, inputs)
        assert list(seen) == ["attention"]
        assert torch.equal(torch.from_numpy(seen["attention"].weights), out.weights)
        assert seen["attention"].weights.shape == (3, 5, 9)

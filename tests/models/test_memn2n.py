"""Memory networks: the equations by hand, tied tables, time, noise, and what must not change an answer."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import trace
from regard.base import ConfigError, ShapeError
from regard.models.memn2n import MemN2N, MemN2NConfig, memn2n_alone, memn2n_joint, noisy_ages

TINY = MemN2NConfig(vocabulary=12, memories=8, width=5)
KINDS = [
    {"tying": tying, "encoding": encoding, "time": time}
    for tying in ("adjacent", "layerwise")
    for encoding in ("position", "centred", "bag")
    for time in (True, False)
]


def made(**settings: Any) -> MemN2N:
    return MemN2N(replace(TINY, **settings)).double().eval()


def stories(batch: int = 3, slots: int = 4, words: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Stories of different lengths, of sentences of different lengths, with questions; padded by 0."""
    lengths = torch.tensor([slots, *torch.randint(1, slots, (batch - 1,)).tolist()])
    story = torch.randint(1, 12, (batch, slots, words))
    story[torch.arange(words) >= torch.randint(1, words + 1, (batch, slots, 1))] = 0
    story[torch.arange(slots) >= lengths[:, None]] = 0
    question = torch.randint(1, 12, (batch, 3))
    question[0, 2] = 0
    return story, lengths, question


def by_hand(model: MemN2N, story: list[list[int]], question: list[int], linear: bool = False) -> Tensor:
    """Section 2 and 4.1 of the paper, word by word."""
    config, width = model.config, model.config.width

    def vector(words: list[int], table: Tensor, age: int | None = None) -> Tensor:
        total = torch.zeros(width, dtype=torch.float64)
        for j, word in enumerate(words, 1):
            for k in range(1, width + 1):
                size = len(words)
                weight = {
                    "position": (1 - j / size) - (k / width) * (1 - 2 * j / size),
                    "centred": 1 + 4 * (k - (width + 1) / 2) * (j - (size + 1) / 2) / (width * size),
                    "bag": 1.0,
                }[config.encoding]
                total[k - 1] += weight * table[word, k - 1]
        return total if age is None or not config.time else total + table[config.vocabulary + age]

    state = vector(question, model.question_table)
    for hop in range(config.hops):
        ages = range(len(story) - 1, -1, -1)  # the latest sentence is the youngest
        keys = torch.stack([vector(s, model.key_table(hop), a) for s, a in zip(story, ages, strict=True)])
        values = torch.stack([vector(s, model.value_table(hop), a) for s, a in zip(story, ages, strict=True)])
        scores = keys @ state
        across = state if model.hops.across is None else model.hops.across.weight @ state
        state = across + (scores if linear else scores.softmax(0)) @ values
    return model.answer_table @ state


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_the_equations_of_the_paper(kind: dict[str, Any], linear: bool) -> None:
    model, (story, lengths, question) = made(**kind), stories()
    logits = model(story, lengths, question, linear=linear)
    for row, length in enumerate(lengths.tolist()):
        sentences = [[word for word in sentence if word] for sentence in story[row, :length].tolist()]
        asked = [word for word in question[row].tolist() if word]
        torch.testing.assert_close(logits[row], by_hand(model, sentences, asked, linear))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_padding_and_batch_change_nothing(kind: dict[str, Any]) -> None:
    model, (story, lengths, question) = made(**kind), stories()
    whole = model(story, lengths, question)
    wider = torch.nn.functional.pad(story, (0, 3, 0, 2)), torch.nn.functional.pad(question, (0, 4))
    torch.testing.assert_close(model(wider[0], lengths, wider[1]), whole)
    for row, length in enumerate(lengths.tolist()):
        alone = model(story[row : row + 1, :length], lengths[row : row + 1], question[row : row + 1])
        torch.testing.assert_close(alone, whole[row : row + 1])


def test_only_time_tells_the_order_of_sentences() -> None:
    story, lengths, question = stories(batch=1)
    mixed = story[:, torch.tensor([2, 0, 3, 1])]
    without, with_time = made(time=False), made()
    torch.testing.assert_close(without(mixed, lengths, question), without(story, lengths, question))
    assert (with_time(mixed, lengths, question) - with_time(story, lengths, question)).abs().max() > 1e-4


def test_only_position_tells_the_order_of_words() -> None:
    story, lengths, question = stories(batch=1)
    story[0, :, :3] = torch.tensor([5, 7, 9])
    mixed = story.clone()
    mixed[0, :, :3] = torch.tensor([9, 5, 7])
    bag, *ordered = made(encoding="bag"), made(), made(encoding="centred")
    torch.testing.assert_close(bag(mixed, lengths, question), bag(story, lengths, question))
    for model in ordered:
        assert (model(mixed, lengths, question) - model(story, lengths, question)).abs().max() > 1e-4


def test_adjacent_tables_are_one_and_their_gradients_add_up() -> None:
    model, given = made(hops=2), stories()
    assert len(model.tables) == 3
    assert model.key_table(1).data_ptr() == model.value_table(0).data_ptr()
    assert model.question_table is model.key_table(0)
    assert model.answer_table.data_ptr() == model.value_table(1).data_ptr()
    model(*given).square().sum().backward()

    loose = made(hops=2)  # the same, with a table of its own in every place
    a, c, d = (table.detach() for table in model.tables)
    leaves = {name: x.clone().requires_grad_() for name, x in {"b": a, "a0": a, "c0": c, "a1": c, "c1": d}.items()}
    leaves["w"] = d[:12].clone().requires_grad_()
    story, lengths, question = given
    state = loose._encode(loose._bags(question), [leaves["b"]])[0]
    memory = loose._encode(loose._story_bags(story, lengths), [leaves[name] for name in ("a0", "c0", "a1", "c1")])
    from regard.attention import Mask

    state = loose.hops(state, memory[::2], memory[1::2], mask=Mask.padding(lengths))
    (state @ leaves["w"].T).square().sum().backward()
    sums = leaves["b"].grad + leaves["a0"].grad, leaves["c0"].grad + leaves["a1"].grad, leaves["c1"].grad.clone()
    sums[2][:12] += leaves["w"].grad
    for table, expected in zip(model.tables, sums, strict=True):
        torch.testing.assert_close(table.grad, expected)


def test_layerwise_tables_are_the_same_in_every_hop() -> None:
    model = made(tying="layerwise")
    assert {model.key_table(hop).data_ptr() for hop in range(3)} == {model.tables[0].data_ptr()}
    assert {model.value_table(hop).data_ptr() for hop in range(3)} == {model.tables[1].data_ptr()}
    assert model.answer_table.shape == (12, 5)


def test_the_embedding_of_padding_is_zero() -> None:
    model, (story, lengths, question) = made(), stories()
    before = model(story, lengths, question)
    with torch.no_grad():
        for table in model.tables[:-1]:  # the last one is also that of the answers
            table[0] += 1.0
    torch.testing.assert_close(model(story, lengths, question), before)


def test_noise_keeps_the_order_and_leaves_gaps() -> None:
    lengths = torch.tensor([20, 7, 1]).repeat(200)
    ages = (lengths[:, None] - 1 - torch.arange(20)).clamp(min=0)
    noisy, real = noisy_ages(ages, lengths, 0.1), torch.arange(20) < lengths[:, None]
    for length, most in ((20, 2), (7, 1), (1, 1)):
        rows = noisy[lengths == length][:, :length]
        assert (rows[:, :-1] > rows[:, 1:]).all()  # as old as before, or older, in the same order
        shift = rows - ages[lengths == length][:, :length]
        assert shift.min() == 0
        assert shift.max() == most
        blanks = shift[:, 0]  # those before the oldest sentence
        assert set(blanks.tolist()) == set(range(most + 1))
    assert (noisy >= ages)[real].all()


def test_noise_is_of_the_training_only() -> None:
    model, (story, lengths, question) = made(noise=0.5), stories()
    assert torch.equal(model(story, lengths, question), model(story, lengths, question))
    model.train()
    drawn = torch.stack([model(story, lengths, question) for _ in range(8)])
    assert drawn.std(0).max() > 1e-4
    quiet = made(noise=0.0).train()
    assert torch.equal(quiet(story, lengths, question), quiet(story, lengths, question))


def test_a_trace_has_one_record_a_hop() -> None:
    model, given = made(), stories()
    with trace(model) as seen:
        model(*given)
    assert list(seen) == [f"hops.attentions.{hop}" for hop in range(3)]
    assert seen[0].weights.shape == (3, 1, 4)


@pytest.mark.parametrize("linear", [False, True])
def test_empty_memories_that_take_part(linear: bool) -> None:
    """As if every slot without a sentence were there, a vector of zeros; padding and batch still change nothing."""
    model, (story, lengths, question) = made(empty=True), stories()
    logits = model(story, lengths, question, linear=linear)
    state = model._encode(model._bags(question), [model.question_table])[0]
    memories = [torch.zeros(3, 8, 5, dtype=torch.float64) for _ in model.tables]
    encoded = model._encode(model._story_bags(story, lengths), list(model.tables))
    for row, length in enumerate(lengths.tolist()):
        for table, memory in enumerate(memories):
            memory[row, :length] = encoded[table][row, :length]
    expected = model.hops(state, memories[:-1], memories[1:], linear=linear) @ model.answer_table.T
    torch.testing.assert_close(logits, expected)
    wider = torch.nn.functional.pad(story, (0, 3, 0, 2))
    torch.testing.assert_close(model(wider, lengths, question, linear=linear), logits)
    alone = model(story[1:2], lengths[1:2], question[1:2], linear=linear)
    torch.testing.assert_close(alone, logits[1:2])
    full = made(empty=True, memories=4)  # no slot is empty: as if there were none
    masked = made(memories=4)
    masked.load_state_dict(full.state_dict())
    torch.testing.assert_close(full(story[:1], lengths[:1], question[:1]), masked(story[:1], lengths[:1], question[:1]))


def test_a_story_without_sentences_is_answered_by_the_question_alone() -> None:
    model, (story, _, question) = made(), stories()
    logits = model(story, torch.zeros(3, dtype=torch.long), question)
    state = model._encode(model._bags(question), [model.question_table])[0]
    torch.testing.assert_close(logits, state @ model.answer_table.T)
    logits.sum().backward()
    assert all(table.grad.isfinite().all() for table in model.tables)


def test_other_scores_and_alignments_by_name() -> None:
    model, given = made(score="additive", align="sparsemax"), stories()
    assert model(*given).shape == (3, 12)
    with pytest.raises(ConfigError, match=r"unknown score.*'dott'.*Did you mean 'dot'"):
        made(score="dott")


def test_sizes_of_the_paper() -> None:
    assert (memn2n_alone().width, memn2n_joint().width, memn2n_joint().hops) == (20, 50, 3)
    model = MemN2N(replace(memn2n_joint(), vocabulary=177))
    assert sum(parameter.numel() for parameter in model.parameters()) == 4 * (177 + 50) * 50
    assert model.tables[0].std().item() == pytest.approx(0.1, rel=0.1)


def test_a_story_that_is_too_long() -> None:
    model, (story, lengths, question) = made(memories=3), stories()
    with pytest.raises(ShapeError, match="the story is too long: got 4; expected at most 3"):
        model(story, lengths, question)

"""End-to-end memory networks (Sukhbaatar et al. 2015) on bAbI, alone and joint, with the ladder of its table 1; and
as a language model.

The paper adds the losses of a batch up, we take their mean: rates are 32 times the paper's 0.01, and gradients are
clipped at 40/32. As in the authors' code, the epochs of the linear start come before the others, at half the rate. The
weights at the end are kept; of several seeds the paper takes the one with the lowest error on its training questions
(`tools/reproduce.py --seeds 10 --together --splits test valid train --choose train`).
"""

import math
from dataclasses import replace
from typing import Any

from regard.models import MemN2NConfig, MemN2NLanguageModelConfig, memn2n_alone, memn2n_joint
from regard.recipes.recipe import Recipe
from regard.tasks import Generation, LanguageModellingConfig, QuestionAnsweringConfig
from regard.train import Train

BATCH = 32
KEPT = 900  # training questions of a task in the small set, after a tenth was held out
TRAIN = Train(optimiser="sgd", momentum=0.0, lr=0.01 * BATCH, clip=40 / BATCH, schedule="halving", hold=0.25,
              halvings=3, capture=True, average=1, keep=1)  # fmt: skip
LINEAR: dict[str, Any] = {"alone": 20, "joint": 30}  # epochs of the linear start, in the authors' code
EPOCHS: dict[str, Any] = {"alone": 100, "joint": 60}
BATCH_LM = 128  # predictions of an update of the language model
EVALUATED_STREAMS = 4  # each begins with an empty memory, which no window of the training has, so there are few
PTB_EPOCH = -(-929_589 // BATCH_LM)  # updates


def babi() -> Recipe:
    """One task by itself: `--set task.tasks=2`."""
    note = "one task alone, 3 hops, PE LS RN"
    return _recipe(memn2n_alone(), "alone", KEPT, note, "13.9, mean over tasks (10 restarts)", tasks=("1",))


def babi_bow() -> Recipe:
    """Alone, without the order of words, linear start and noise."""
    return _step(babi(), "bag of words", "25.1, mean over tasks", encoding="bag")


def babi_pe() -> Recipe:
    """Alone, with position encoding."""
    return _step(babi(), "PE", "20.3, mean over tasks")


def babi_pe_ls() -> Recipe:
    """Alone, with position encoding and linear start."""
    return _step(babi(), "PE LS", "16.3, mean over tasks", linear=True)


def babi_joint() -> Recipe:
    """One model learns all 20 tasks of bAbI together."""
    note = "20 tasks joint, 3 hops, PE LS RN"
    return _recipe(memn2n_joint(), "joint", 20 * KEPT, note, "12.4 (10 restarts)")


def babi_joint_bow() -> Recipe:
    """Joint, without the order of words, linear start and noise."""
    return _step(babi_joint(), "bag of words", "", encoding="bag")


def babi_joint_pe() -> Recipe:
    """Joint, with position encoding."""
    return _step(babi_joint(), "PE", "")


def babi_joint_pe_ls() -> Recipe:
    """Joint, with position encoding and linear start."""
    return _step(babi_joint(), "PE LS", "13.3", linear=True)


def babi_10k() -> Recipe:
    """All tasks together, ten times the questions; fewer epochs, since an epoch is ten times as long."""
    recipe = _recipe(memn2n_joint(), "joint", 19 * 10 * KEPT, "19 tasks joint, 10k questions each, 3 hops, PE LS RN",
                     "7.5 over 20 tasks, 7.5 over these 19", linear=10, epochs=20)  # fmt: skip
    return replace(recipe, task=replace(recipe.task, size="10k"))


def babi_10k_alone() -> Recipe:
    """One task by itself with ten times the questions: `--set task.tasks=2`; fewer epochs, as above."""
    recipe = _recipe(memn2n_alone(), "alone", 10 * KEPT, "one task alone, 10k questions, 3 hops, PE LS RN",
                     "6.6, mean over 20 tasks (10 restarts)", tasks=("1",), linear=10, epochs=40)  # fmt: skip
    return replace(recipe, task=replace(recipe.task, size="10k"))


def smoke() -> Recipe:
    """Embedded stories that need one fact, on a CPU, in less than half a minute."""
    recipe = _recipe(memn2n_alone(), "alone", 675, "embedded stories, on a CPU", "", linear=15, epochs=25)
    task = replace(recipe.task, dataset="babi_small", tasks=("1",))
    return replace(recipe, task=task, train=replace(recipe.train, capture=False))


def ptb() -> Recipe:
    """Penn Treebank, 6 hops over the last 150 words, with dropout.

    The training of the paper, `memn2n/ptb_published`, learns its text by heart here; dropout, Adam and twice the width
    are ours.
    """
    recipe = ptb_published()
    return replace(
        recipe,
        model=replace(recipe.model, width=300, dropout=0.3, embed_dropout=0.3, tied=True),
        task=replace(recipe.task, batch_size=32, length=64),
        train=Train(
            steps=18_160, optimiser="adamw", lr=2e-3, weight_decay=0.01, schedule="cosine", warmup=500, clip=0.5,
            precision="tf32", capture=True, ema=0.999, log_every=227, evaluate_every=1816, save_every=9080, keep=1,
            patience=2,
        ),
        note="newspaper text, 6 hops over the last 150 words, with dropout",
    )  # fmt: skip


def ptb_published() -> Recipe:
    """The same by the training of the paper.

    An update has 128 predictions, as in the paper, at places all over the text, as in the authors' code.
    """
    return Recipe(
        paper="memn2n_language_model",
        model=MemN2NLanguageModelConfig(),
        task=LanguageModellingConfig(
            "ptb", context="windows", batch_size=BATCH_LM, length=1, before=149,
            generation=Generation(rows=EVALUATED_STREAMS, length=256),
        ),
        train=Train(
            steps=50 * PTB_EPOCH, optimiser="sgd", momentum=0.0, lr=0.01 * BATCH_LM, clip=50 / BATCH_LM,
            schedule="plateau", factor=1 / 1.5, precision="tf32", capture=True,
            log_every=500, evaluate_every=PTB_EPOCH, save_every=5 * PTB_EPOCH,
        ),
        note="newspaper text, 6 hops over the last 150 words, the paper's training",
        published="111 (the paper, the best of 10 by validation)",
    )  # fmt: skip


def agreement() -> Recipe:
    """Generated sentences whose verb agrees with a distant subject, as a running text: seconds on a CPU."""
    return Recipe(
        paper="memn2n_language_model",
        model=MemN2NLanguageModelConfig(memories=16, width=32, hops=2),
        task=LanguageModellingConfig("agreement", context="stream", batch_size=32, length=16),
        train=Train(
            steps=200, lr=2e-2, schedule="linear", floor=0.05, log_every=50, evaluate_every=100, save_every=100
        ),
        note="generated sentences, on a CPU",
    )


def _recipe(
    model: MemN2NConfig,
    kind: str,
    questions: int,
    note: str,
    published: str,
    *,
    tasks: tuple[str, ...] = (),
    linear: int | None = None,
    epochs: int | None = None,
) -> Recipe:
    first, rest = LINEAR[kind] if linear is None else linear, epochs or EPOCHS[kind]
    task = QuestionAnsweringConfig("babi", tasks=tasks, linear_epochs=first, batch_size=BATCH)
    return Recipe("memn2n", model, task, _epochs(questions, first, rest), note=note, published=published)


def _epochs(questions: int, linear: int, rest: int) -> Train:
    """So many epochs of the linear start and then of the rest, with an evaluation every fifth."""
    epoch = questions / BATCH
    steps, every = math.ceil((linear + rest) * epoch), math.ceil(5 * epoch)
    return replace(TRAIN, steps=steps, lead=linear / (linear + rest), log_every=math.ceil(epoch), evaluate_every=every,
                   save_every=10 * every)  # fmt: skip


def _step(recipe: Recipe, name: str, published: str, *, linear: bool = False, **changes: Any) -> Recipe:
    """A step of the ladder: without random noise, and perhaps without linear start."""
    kind = "alone" if recipe.task.tasks else "joint"
    first = LINEAR[kind] if linear else 0
    questions = KEPT if kind == "alone" else 20 * KEPT
    return replace(
        recipe,
        model=replace(recipe.model, noise=0.0, **changes),
        task=replace(recipe.task, linear_epochs=first),
        train=_epochs(questions, first, EPOCHS[kind]),
        note=recipe.note.replace("PE LS RN", name),
        published=published,
    )

"""A trained model and what it does: predict, evaluate, explain. It knows its task only by the menu of tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from torch import nn

from regard.base import RegardError
from regard.data import Question
from regard.explanation import Concepts, Explanation
from regard.recipes import Recipe
from regard.tasks import (
    TASKS,
    Answer,
    Caption,
    ClassifiedText,
    Evaluation,
    Generated,
    Picture,
    Prediction,
    Progress,
    ReadWord,
    Recognised,
    StoredTask,
    TaskEntry,
    concepts_of,
)

Several = list[Any] | tuple[Any, ...]  # of pictures; a string is a sequence too


def verb_of(entry: TaskEntry) -> str:
    """The method of `Model`, and the command, that use a model of this task: its verb, or "predict" if it has none.

    >>> verb_of(TASKS["translation"]), verb_of(TASKS["algorithmic"])
    ('translate', 'predict')
    """
    return entry.verb if hasattr(Model, entry.verb) else "predict"


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and all that it needs: what `load` gives.

    `predict` works for every task. `translate`, `classify`, `caption`, `generate`, `answer` and `read` are the same
    under the names that people look for, and refuse a model that does something else.
    """

    name: str
    recipe: Recipe
    task: Any  # a StoredTask
    module: nn.Module
    folder: Path

    @property
    def entry(self) -> TaskEntry:
        """Gives the entry of its task on the menu TASKS."""
        return self.recipe.entry

    @property
    def num_parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def predict(self, inputs: Any, **settings: Any) -> Any:
        """The best prediction for one input, or a list of them for several.

        A prediction has its answer as `.text` and what the model attended to as `.explanations`. The settings are those
        of the task, such as beam=8 for a search; `regard show RECIPE` lists them.
        """
        best = [predictions[0] for predictions in self.predictions(inputs, **settings)]
        return best[0] if self.task.is_single(inputs) else best

    def predictions(self, inputs: Any, **settings: Any) -> list[list[Any]]:
        """For each input the best few predictions, best first; `nbest=5` says how many where the task can tell."""
        stored: StoredTask = self.task
        batch = [inputs] if stored.is_single(inputs) else inputs
        return stored.predict(self.module, batch, stored.settings(**settings))

    def layers(self, prediction: Any) -> list[Explanation]:
        """All that the model attended to for one prediction, by layer and head, where it has several."""
        stored: StoredTask = self.task
        return stored.layers(self.module, prediction)

    def concepts(self, text: str, *, head: int | None = None, residual: int | float = 0.5) -> Concepts:
        """What the words of a text take in of each other, layer by layer, and what each is then made of.

        `head` chooses one head of each layer; None takes the mean of all. `residual` is the share of a word that passes
        by a layer unchanged. A model whose words do not attend to each other is refused.
        """
        return concepts_of(self.task, self.module, text, head=head, residual=residual, name=self.name)

    def evaluate(self, split: str = "test", *, progress: Progress | None = None, **settings: Any) -> Evaluation:
        """Every figure of the task on a split, with signatures and outputs.

        The settings are those of `predict`. `progress` is called with what is counted, how many are done, and of how
        many: ("sentences", 64, 1968).
        """
        chosen = self.task.settings(**settings)
        evaluation: Evaluation = self.task.evaluate(self.module, split, chosen, full=True, progress=progress)
        return evaluation

    # ── the same under names that people look for ───────────────────────────────────────────────────────────────────

    @overload
    def translate(self, text: str, **settings: Any) -> Prediction: ...

    @overload
    def translate(self, text: Sequence[str], **settings: Any) -> list[Prediction]: ...

    def translate(self, text: str | Sequence[str], **settings: Any) -> Prediction | list[Prediction]:
        """The translation of a text, or of each of several: `.text`, `.tokens`, and `.weights` [tokens, source tokens].

        The settings are those of the search, such as beam=8, length_penalty=1.0 or temperature=0.8.
        """
        return self._predict_as("translate", text, settings)  # type: ignore[no-any-return]

    def classify(self, inputs: Picture | Several, **settings: Any) -> Any:
        """What a picture shows or what class a text has, or each of several: a `Recognised` or a `ClassifiedText`.

        Both have `.text`, `.probabilities` and `.explanations`. A picture is a path, the bytes of a file, or pixels as
        bytes [h w] or [h w 3]; a pair of texts is a tuple of two.
        """
        classified: Recognised | ClassifiedText | list[Any] = self._predict_as("classify", inputs, settings)
        return classified

    @overload
    def caption(self, image: Picture, **settings: Any) -> Caption: ...

    @overload
    def caption(self, image: Several, **settings: Any) -> list[Caption]: ...

    def caption(self, image: Picture | Several, **settings: Any) -> Caption | list[Caption]:
        """A caption of a picture, or of each of several: `.text`, `.tokens`, and `.weights` [tokens, places].

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. The settings are those of the
        search, such as beam=8.
        """
        return self._predict_as("caption", image, settings)  # type: ignore[no-any-return]

    @overload
    def generate(self, text: str, **settings: Any) -> Generated: ...

    @overload
    def generate(self, text: Sequence[str], **settings: Any) -> list[Generated]: ...

    def generate(self, text: str | Sequence[str], **settings: Any) -> Generated | list[Generated]:
        """The continuation of a text, or of each of several: `.text`, `.continuation`, and `.explanations`.

        The settings are those of a continuation, such as max_tokens=100, temperature=0.8, top_p=0.9 or seed=3.
        """
        return self._predict_as("generate", text, settings)  # type: ignore[no-any-return]

    @overload
    def answer(self, story: str | Question, **settings: Any) -> Answer: ...

    @overload
    def answer(self, story: Several, **settings: Any) -> list[Answer]: ...

    def answer(self, story: str | Question | Several, **settings: Any) -> Answer | list[Answer]:
        """The answer to a question about a story, or to each of several: `.text`, `.probability`, and the hops.

        A story is a text whose last sentence is the question, or a `regard.data.Question`.
        """
        return self._predict_as("answer", story, settings)  # type: ignore[no-any-return]

    @overload
    def read(self, image: Picture, **settings: Any) -> ReadWord: ...

    @overload
    def read(self, image: Several, **settings: Any) -> list[ReadWord]: ...

    def read(self, image: Picture | Several, **settings: Any) -> ReadWord | list[ReadWord]:
        """The word in a picture, or in each of several: `.text`, `.probability`, and the place of each letter.

        A picture is a path, the bytes of a file, or pixels as bytes [h w] or [h w 3]. `regard.api.read_sign` finds and
        reads all words of a photograph.
        """
        return self._predict_as("read", image, settings)  # type: ignore[no-any-return]

    def must(self, verb: str) -> None:
        """Raises an error that says what to use instead, unless this is what the model does."""
        if self.entry.verb != verb:
            able, wanted = self.entry, next((entry for entry in TASKS.values() if entry.verb == verb), None)
            asked = verb if wanted is None else f"{verb} {wanted.inputs}"
            use = f"{able.verb} {able.inputs} with it"
            if verb_of(able) != able.verb:
                use = f"give {able.inputs} to `regard predict {self.folder}`, or to `model.predict`"
            cure = f"{use}, or load a model that can {verb}"
            raise RegardError(f"{self.name} cannot {asked}", got=f"a {able.name} run", cure=cure)

    def _predict_as(self, verb: str, inputs: Any, settings: Mapping[str, Any]) -> Any:
        self.must(verb)
        return self.predict(inputs, **settings)

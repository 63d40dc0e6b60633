"""Tasks: batches, loss, figures, predictions. A task knows no model by name; recipes bring the two together."""

from regard.tasks.search import Prediction, Search, translate_texts
from regard.tasks.task import Batch, Batches, Loss, Score, Task
from regard.tasks.translation import Translation, TranslationConfig, read_splits

__all__ = [
    "Batch",
    "Batches",
    "Loss",
    "Prediction",
    "Score",
    "Search",
    "Task",
    "Translation",
    "TranslationConfig",
    "read_splits",
    "translate_texts",
]

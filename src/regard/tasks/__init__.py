"""Tasks: batches, loss, figures, predictions. A task knows no model by name; recipes bring the two together."""

from regard.tasks.captioning import Caption, Captioning, CaptioningConfig
from regard.tasks.classification import Classification, Recognised
from regard.tasks.features import EncoderConfig, Viewer
from regard.tasks.judging import ClassificationConfig, Gazing
from regard.tasks.search import Prediction, Search, translate_texts
from regard.tasks.task import Batch, Batches, Kept, Kind, Loss, Progress, Score, Task
from regard.tasks.translation import Translation, TranslationConfig, read_splits

TASKS: dict[str, Kind] = {
    "translation": Kind(Translation, TranslationConfig, inherits=True),
    "classification": Kind(Classification, ClassificationConfig, inherits=False),
    "captioning": Kind(Captioning, CaptioningConfig, inherits=True),
}

__all__ = [
    "TASKS",
    "Batch",
    "Batches",
    "Caption",
    "Captioning",
    "CaptioningConfig",
    "Classification",
    "ClassificationConfig",
    "EncoderConfig",
    "Gazing",
    "Kept",
    "Kind",
    "Loss",
    "Prediction",
    "Progress",
    "Recognised",
    "Score",
    "Search",
    "Task",
    "Translation",
    "TranslationConfig",
    "Viewer",
    "read_splits",
    "translate_texts",
]

"""Tasks: batches, loss, figures, predictions. A task knows no model by name; recipes bring the two together."""

from regard.tasks import (
    action_recognition,
    algorithmic,
    captioning,
    classification,
    language_modelling,
    node_classification,
    picture_generation,
    question_answering,
    text_classification,
    translation,
    word_finding,
    word_reading,
)
from regard.tasks.action_clips import ActionRecognitionConfig
from regard.tasks.action_recognition import ActedPerson, ActedScene, ActionRecognition, ActionSettings
from regard.tasks.algorithmic import Algorithmic, AlgorithmicConfig, Computed
from regard.tasks.captioning import Caption, Captioning, CaptioningConfig
from regard.tasks.classification import Classification, ClassificationConfig, Recognised
from regard.tasks.concepts import concepts_of
from regard.tasks.display import Column, Display, EvaluationChart, Figure, Point
from regard.tasks.drawn_pictures import DrawingSettings, Drawn
from regard.tasks.features import EncoderConfig, FeatureCache
from regard.tasks.generation import Generated, Generation
from regard.tasks.glimpse_loss import GlimpseSettings
from regard.tasks.graph_nodes import NodeClassificationConfig
from regard.tasks.inputs import Picture
from regard.tasks.language_modelling import LanguageModelling, LanguageModellingConfig
from regard.tasks.large_text import read_splits
from regard.tasks.node_classification import LabelledNode, NodeClassification, NodeSettings
from regard.tasks.parallel_text import TranslationConfig
from regard.tasks.picture_generation import PictureGeneration
from regard.tasks.prepared_texts import TextClassificationConfig
from regard.tasks.question_answering import Answer, AnswerSettings, QuestionAnswering
from regard.tasks.search import Prediction, Search, translate_texts
from regard.tasks.source_layers import HeadChoice, chosen_head
from regard.tasks.story_questions import QuestionAnsweringConfig
from regard.tasks.task import (
    Batch,
    CarriesState,
    Evaluation,
    Example,
    Loss,
    Progress,
    StoredTask,
    Task,
    TaskEntry,
    TrainingBatches,
)
from regard.tasks.text_classification import ClassifiedText, TextClassification, TextSettings
from regard.tasks.told_pictures import PictureGenerationConfig
from regard.tasks.translation import Translation
from regard.tasks.word_finding import FindingSettings, FoundWords, WordFinding, WordFindingConfig
from regard.tasks.word_pictures import WordReadingConfig
from regard.tasks.word_reading import ReadWord, WordReading

TASKS: dict[str, TaskEntry] = {
    entry.name: entry
    for entry in (
        translation.TASK,
        classification.TASK,
        captioning.TASK,
        language_modelling.TASK,
        algorithmic.TASK,
        text_classification.TASK,
        question_answering.TASK,
        node_classification.TASK,
        picture_generation.TASK,
        word_reading.TASK,
        word_finding.TASK,
        action_recognition.TASK,
    )
}

__all__ = [
    "TASKS",
    "ActedPerson",
    "ActedScene",
    "ActionRecognition",
    "ActionRecognitionConfig",
    "ActionSettings",
    "Algorithmic",
    "AlgorithmicConfig",
    "Answer",
    "AnswerSettings",
    "Batch",
    "Caption",
    "Captioning",
    "CaptioningConfig",
    "CarriesState",
    "Classification",
    "ClassificationConfig",
    "ClassifiedText",
    "Column",
    "Computed",
    "Display",
    "DrawingSettings",
    "Drawn",
    "EncoderConfig",
    "Evaluation",
    "EvaluationChart",
    "Example",
    "FeatureCache",
    "Figure",
    "FindingSettings",
    "FoundWords",
    "Generated",
    "Generation",
    "GlimpseSettings",
    "HeadChoice",
    "LabelledNode",
    "LanguageModelling",
    "LanguageModellingConfig",
    "Loss",
    "NodeClassification",
    "NodeClassificationConfig",
    "NodeSettings",
    "Picture",
    "PictureGeneration",
    "PictureGenerationConfig",
    "Point",
    "Prediction",
    "Progress",
    "QuestionAnswering",
    "QuestionAnsweringConfig",
    "ReadWord",
    "Recognised",
    "Search",
    "StoredTask",
    "Task",
    "TaskEntry",
    "TextClassification",
    "TextClassificationConfig",
    "TextSettings",
    "TrainingBatches",
    "Translation",
    "TranslationConfig",
    "WordFinding",
    "WordFindingConfig",
    "WordReading",
    "WordReadingConfig",
    "chosen_head",
    "concepts_of",
    "read_splits",
    "translate_texts",
]

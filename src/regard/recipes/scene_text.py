"""Words in photographs: readers that learn from rendered words, alone or with photographed ones beside them.

A batch is rendered on the device, so nothing waits for the CPU. Forward and backward cost 8.4 GFLOP a word (along
columns, with attention or CTC), 11.7 (over places) and 0.6 (the small reader); a sign costs 5.9. Every training ends
after 20 minutes, wherever it is then: the rate follows the clock.
"""

from dataclasses import replace

from regard.data import Lettering, Weather
from regard.data.signs import Signs
from regard.models import SceneTextConfig, TextDetectorConfig, scene_text_2d, scene_text_base
from regard.recipes.recipe import Recipe
from regard.tasks import WordFindingConfig, WordReadingConfig
from regard.train import Train

TRAIN = Train(
    steps=24_000, seconds=1200.0, lr=1e-3, optimiser="adamw", weight_decay=0.01, schedule="cosine", warmup=1000,
    floor=0.01, clip=20.0, precision="bfloat16", capture=True, ema=0.999, log_every=100, evaluate_every=3000,
    save_every=12_000, keep=1,
)  # fmt: skip


def iiit5k() -> Recipe:
    """A spline, a residual network, a bidirectional LSTM and attention; two fifths of each batch are photographs."""
    task = WordReadingConfig(real=("iiit5k", "icdar2015"), real_share=0.4, smoothing=0.05)
    published = "87.9 and 77.6 (TRBA, 14 million synthetic words)"
    model = replace(scene_text_base(), dropout=0.2)
    return Recipe("scene_text", model, task, TRAIN, "rendered and photographed words", published)


def rendered() -> Recipe:
    """The same from rendered words alone."""
    return Recipe("scene_text", scene_text_base(), WordReadingConfig(), TRAIN, "rendered words alone")


def rendered_2d() -> Recipe:
    """Attention over rows and columns (SAR), from rendered words alone."""
    task = WordReadingConfig(keep_ratio=True)
    return Recipe("scene_text", scene_text_2d(), task, TRAIN, "rendered words alone, attention over two dimensions")


def rendered_ctc() -> Recipe:
    """The twin without attention, trained by CTC, from rendered words alone."""
    model = replace(scene_text_base(), decoder="ctc")
    return Recipe("scene_text", model, WordReadingConfig(), TRAIN, "rendered words alone, CTC")


def rendered_small() -> Recipe:
    """A reader of 1.9 million parameters, small enough to be handed out, from rendered words alone."""
    model = SceneTextConfig(channels=16, hidden_dim=128, align_dim=128, embed_dim=32, dropout=0.0)
    task = WordReadingConfig(batch_size=512)
    return Recipe("scene_text", model, task, TRAIN, "rendered words alone, 1.9 million parameters")


def signs() -> Recipe:
    """A detector of words on rendered signs."""
    train = replace(TRAIN, steps=8000, warmup=300, evaluate_every=1000, save_every=4000, clip=5.0, log_every=200)
    return Recipe("text_detector", TextDetectorConfig(), WordFindingConfig(), train, "words on rendered signs")


def smoke() -> Recipe:
    """Rendered numbers of one or two digits, on a CPU, in a few seconds."""
    calm = Lettering(curved=0.0, tilt=1.0, perspective=0.02, slant=0.02, strings=1.0, marks=0.0)
    mild = Weather(neighbours=0.0, edges=0.0, shadows=0.0, blur=0.3, noise=0.02, coarse=0.0, texture=0.02,
                   lighter=1.0, contrast=0.1)  # fmt: skip
    task = WordReadingConfig(
        letters="0123456789", longest=2, faces=("DejaVu Sans Bold",), lettering=calm, weather=mild,
        height=16, width=24, batch_size=32, held_out=200, tested=(),
    )  # fmt: skip
    model = SceneTextConfig(
        rectify=False, channels=8, blocks=(1, 1, 1, 1), hidden_dim=48, layers=1, embed_dim=16, align_dim=32, dropout=0.0
    )
    train = Train(
        steps=126, lr=9e-3, schedule="cosine", warmup=15, clip=5.0, log_every=21, evaluate_every=126, save_every=126,
        keep=1,
    )  # fmt: skip
    return Recipe("scene_text", model, task, train, "rendered numbers of one or two digits, on a CPU")


def signs_smoke() -> Recipe:
    """Words on small rendered signs, on a CPU, in a few seconds."""
    mild = Weather(blur=0.3, noise=0.02, coarse=0.0, texture=0.03)
    task = WordFindingConfig(
        signs=Signs(size=64, words=3, lowest=14, highest=24), lettering=Lettering(curved=0.0, tilt=1.0, marks=0.0),
        weather=mild, faces=("DejaVu Sans", "DejaVu Sans Bold"), longest=4, batch_size=8, held_out=32,
    )  # fmt: skip
    train = Train(
        steps=120, lr=5e-3, schedule="cosine", warmup=10, clip=5.0, log_every=30, evaluate_every=120, save_every=120,
        keep=1,
    )  # fmt: skip
    return Recipe("text_detector", TextDetectorConfig(channels=8), task, train, "words on small signs, on a CPU")

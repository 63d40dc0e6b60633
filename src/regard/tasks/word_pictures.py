"""Pictures of words as a reader is shown them: rendered on the device in training, photographed ones beside them.

Each batch has new words in new faces and poses. Held-out renders are made once, on the CPU, from seeds, of words that
training does not see, so they are the same everywhere. A share of each batch may be photographs, which are jostled a
little each time.
"""

import dataclasses
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.base import ConfigError, check_settings, followed
from regard.base.ranges import BatchSize, Count, OneOf, Pixels, Range, Share, UpToOne, UserPath
from regard.data import BOS, EOS, PAD, DownloadError
from regard.data.glyphs import LETTERS, Glyphs
from regard.data.lettering import Lettering, draw_words, pick, write_words
from regard.data.weather import Weather, jostle, paint_words, standardised, wear
from regard.data.words import FIRST, VOCABULARY, WordPictures, encode_words, normalised, read_words, split_words
from regard.datasets import DATASETS, choose
from regard.datasets.typefaces import typefaces
from regard.tasks.inputs import checked_split
from regard.tasks.search import Search

FILES = "files"  # the data set that consists of the user's files
SEEDS = {"valid": 1, "rendered": 2, "curved": 3}  # of the held-out renders
HELD_WORDS = 10  # every tenth word of the list is kept for held-out renders
AT_ONCE = 128  # renders that are made together on the CPU
WordList = Annotated[str, OneOf(("english_words", "generic_words"))]
Letters = Annotated[int, Range(least=1, most=25)]


@dataclasses.dataclass(frozen=True)
class WordReadingConfig:
    """Which words, rendered how, beside which photographs; in which batches; and how to read."""

    real: tuple[str, ...] = ()  # photographed words to train on too: "iiit5k", "icdar2015", "files"
    real_share: UpToOne = 0.5  # of a batch, where there are photographs
    tested: tuple[str, ...] = ("iiit5k", "icdar2015")  # photographed words that a full evaluation reads
    table: UserPath | None = None  # real=files: lines picture<TAB>text
    folder: UserPath | None = None  # real=files: of the pictures
    words: WordList = "english_words"  # the list that is rendered
    vocabulary: Count | None = None  # the first so many words of the list; None: all
    letters: str = LETTERS  # words with others are left out; digits alone make strings of digits
    shortest: Letters = 1  # letters of a word, at least
    longest: Letters = 20  # letters of a word, at most; readers write no more
    faces: tuple[str, ...] = ()  # of the atlas, by name; none: all
    lettering: Lettering = dataclasses.field(default_factory=Lettering)
    weather: Weather = dataclasses.field(default_factory=Weather)  # of renders
    wear: Weather = dataclasses.field(default_factory=lambda: Weather(blur=0.4, noise=0.04, coarse=0.1))  # photographs
    height: Pixels = 32  # of the pictures that a reader sees
    width: Pixels = 128  # the same
    keep_ratio: bool = False  # pictures are as wide as their word, with padding, in place of stretched
    batch_size: BatchSize = 256  # words
    held_out: Count = 1000  # renders of each held-out split
    smoothing: Share = 0.0  # of labels
    search: Search = dataclasses.field(default_factory=lambda: Search(beams=1, length_penalty=0.0, batch_tokens=16384))

    def __post_init__(self) -> None:
        check_settings(self, "task")
        if not self.shortest <= self.longest:
            got = f"shortest={self.shortest} and longest={self.longest}"
            raise ConfigError("the lengths of words", got=got, expected="shortest ≤ longest")
        if not self.letters or not set(self.letters) <= set(LETTERS):
            raise ConfigError("task.letters", got=repr(self.letters), expected=f"some of {LETTERS}")

    def describe_data(self) -> str:
        """The data in a few words: "rendered words", or "rendered words, iiit5k"."""
        return ", ".join(["rendered words", *self.real])

    def data_set(self) -> str:
        """The name of the data set."""
        return self.describe_data()


class Shown(NamedTuple):
    """A batch as a model sees it."""

    images: Tensor  # [b 1 h w], each with mean 0 and deviation 1
    widths: Tensor  # [b], columns that are not padding
    labels: Tensor  # [b l], numbers of LETTERS, −1 after the end


class HeldOut(NamedTuple):
    """Words that are read in an evaluation."""

    images: Tensor  # uint8 [n 1 h w], as large as a model wants them
    widths: Tensor  # [n]
    texts: tuple[str, ...]  # as labels have them
    names: tuple[str, ...]


class ShownWords:
    """The words of a task: what is rendered, what is photographed, and how both are shown."""

    config: WordReadingConfig

    def __init__(
        self, config: WordReadingConfig, *, photographs: dict[str, dict[str, WordPictures]] | None = None
    ) -> None:
        self.config = config
        for name in {*config.real, *config.tested} - {FILES}:
            choose(DATASETS, "word pictures", name, setting="task.real", besides=(FILES,))
        self._photographs = dict(photographs or {})
        self._placed: dict[tuple[str, torch.device], Any] = {}

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def training_words(self, batch: int, device: torch.device) -> Shown:
        """New words: the first ones rendered, a share of photographs after them."""
        config = self.config
        real = round(batch * config.real_share) if config.real else 0
        if real == 0:
            return _standard(self.render(batch, config.lettering, device))
        images, labels, aspects = self._real(device)
        chosen = pick(torch.rand(real, device=device), len(images))
        photographs, size = images[chosen].float() / 255, (config.height, config.width)
        seen = wear(jostle(photographs, size), config.wear, inverted=config.wear.inverted)
        widths = torch.full((real,), config.width, device=device)
        if config.keep_ratio:
            widths = _widths(aspects[chosen] * (0.8 + 0.4 * torch.rand(real, device=device)), size)
            seen = _in_ratio(seen, widths)
        shown = Shown(standardised(seen, widths), widths, labels[chosen])
        if real == batch:
            return shown
        rendered = _standard(self.render(batch - real, config.lettering, device))
        return Shown(*(torch.cat(pair) for pair in zip(rendered, shown, strict=True)))

    def render(
        self,
        batch: int,
        style: Lettering,
        device: torch.device,
        *,
        held_out: bool = False,
        generator: torch.Generator | None = None,
    ) -> Shown:
        """New renders, from 0 (black) to 1, of words of the list that are for training, or that are held out."""
        config, table, glyphs = self.config, self._table(held_out, device), self._glyphs(device)
        words = draw_words(table, batch, style, letters=self._alphabet(device), generator=generator)
        size = (config.height, config.width)
        ink, widths = write_words(words, glyphs, style, size, keep_ratio=config.keep_ratio, generator=generator)
        images = wear(paint_words(ink, config.weather, generator=generator), config.weather, generator=generator)
        return Shown(_padded(images, widths) if config.keep_ratio else images, widths, words)

    # ── held-out words ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def tests(self) -> list[str]:
        """The test sets, the usual one first: photographs where some are trained on, else renders."""
        real = [name for name in self.config.tested if name in self.config.real] + [FILES] * (FILES in self.config.real)
        others = [name for name in self.config.tested if name not in real]
        plain = ["icdar2015_alnum"] * ("icdar2015" in (*real, *others))
        renders = ["rendered", "curved"]
        return ["test", *dict.fromkeys([*real, *renders, *others, *plain] if real else [*renders, *others, *plain])]

    def held_out(self, split: str) -> HeldOut:
        """The words of a split: "valid", "test" (the first test set), or one of the test sets by its name."""
        name = checked_split(split, ["valid", *self.tests])
        if name == "test":
            name = self.tests[1]
        device = torch.device("cpu")
        if (name, device) not in self._placed:
            self._placed[name, device] = self._made(name)
        placed: HeldOut = self._placed[name, device]
        return placed

    def photographs(self, name: str) -> dict[str, WordPictures]:
        """The splits of photographed words of this name."""
        if name not in self._photographs:
            self._photographs[name] = self._own() if name == FILES else DATASETS[name].read()
        return self._photographs[name]

    def missing(self, split: str) -> str:
        """Why a test set cannot be read here; empty where it can."""
        try:
            self.held_out(split)
        except DownloadError as error:
            return str(error)
        return ""

    def _made(self, name: str) -> HeldOut:
        config = self.config
        if name == "valid" and config.real:
            parts = [self.photographs(each)["valid"] for each in config.real]
            joined = [self.fitted(part) for part in parts]
            texts = tuple(text for part in joined for text in part.texts)
            names = tuple(each for part in joined for each in part.names)
            return HeldOut(torch.cat([p.images for p in joined]), torch.cat([p.widths for p in joined]), texts, names)
        if name in SEEDS:
            curved = {"rendered": 0.0, "curved": 1.0, "valid": config.lettering.curved}[name]
            return self._rendered(dataclasses.replace(config.lettering, curved=curved), SEEDS[name], name)
        place, _, kind = name.partition("_")
        return self.fitted(self.photographs(place)["test_alnum" if kind == "alnum" else "test"])

    def _rendered(self, style: Lettering, seed: int, name: str) -> HeldOut:
        generator, parts, left = torch.Generator().manual_seed(seed), [], self.config.held_out
        while left > 0:
            parts.append(
                self.render(min(left, AT_ONCE), style, torch.device("cpu"), held_out=True, generator=generator)
            )
            left -= AT_ONCE
        images = torch.cat([(part.images * 255).round().to(torch.uint8) for part in parts])
        widths, labels = (torch.cat([part[place] for part in parts]) for place in (1, 2))
        texts = tuple("".join(LETTERS[number] for number in row if number >= 0) for row in labels.tolist())
        return HeldOut(images, widths, texts, tuple(f"{name} {number}" for number in range(len(texts))))

    def fitted(self, words: WordPictures) -> HeldOut:
        """Photographs in the size that a model sees: stretched, or in their ratio with padding."""
        config = self.config
        size = (config.height, config.width)
        widths, shown = torch.full((words.size,), config.width), words.images.float() / 255
        if words.size:
            shown = F.interpolate(shown, size=size, mode="bilinear", antialias=True)
        if words.size and config.keep_ratio:
            widths = _widths(words.aspects, size)
            shown = _in_ratio(shown, widths)
        texts = tuple(normalised(text) for text in words.texts)
        names = words.names or tuple(f"word {number}" for number in range(words.size))
        return HeldOut((255 * shown).round().clamp(0, 255).to(torch.uint8), widths, texts, names)

    # ── what lies on the device ─────────────────────────────────────────────────────────────────────────────────────

    def _own(self) -> dict[str, WordPictures]:
        config = self.config
        if config.table is None or config.folder is None:
            cure = "set task.table=words.tsv task.folder=pictures, or give --source words.tsv --target pictures"
            raise ConfigError("real=files needs a file and a folder", cure=cure)
        again = "name them again by --source and --target"
        table, folder = (followed(path, cure=again) for path in (config.table, config.folder))
        words = read_words(folder, table)
        held = min(1000, max(1, words.size // 10))
        return split_words(words, valid=held, test=held)

    @cached_property
    def _lists(self) -> tuple[list[str], list[str]]:
        """The words for training and those that are held out."""
        config, known = self.config, set(self.config.letters)
        words = DATASETS[config.words].read()[: config.vocabulary]
        fitting = [word for word in words if config.shortest <= len(word) <= config.longest and set(word) <= known]
        held = fitting[HELD_WORDS - 1 :: HELD_WORDS]
        train = [word for number, word in enumerate(fitting, 1) if number % HELD_WORDS]
        return (train, held) if held else ([LETTERS[0]], [LETTERS[0]])  # letters of no word: strings alone

    def _table(self, held_out: bool, device: torch.device) -> Int[Tensor, "n l"]:
        key = "held words" if held_out else "words", device
        if key not in self._placed:
            self._placed[key] = encode_words(self._lists[held_out], self.config.longest).to(device)
        table: Tensor = self._placed[key]
        return table

    def _alphabet(self, device: torch.device) -> Int[Tensor, " n"]:
        if ("alphabet", device) not in self._placed:
            self._placed["alphabet", device] = torch.tensor([LETTERS.index(x) for x in self.config.letters]).to(device)
        alphabet: Tensor = self._placed["alphabet", device]
        return alphabet

    def _glyphs(self, device: torch.device) -> Glyphs:
        if ("glyphs", device) not in self._placed:
            glyphs = typefaces()
            self._placed["glyphs", device] = (glyphs.take(self.config.faces) if self.config.faces else glyphs).to(
                device
            )
        placed: Glyphs = self._placed["glyphs", device]
        return placed

    def _real(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """The photographs to train on, their labels, and their widths by their heights."""
        if ("real", device) not in self._placed:
            parts = [self.photographs(name)["train"] for name in self.config.real]
            texts = [normalised(text) for part in parts for text in part.texts]
            kept = [number for number, text in enumerate(texts) if 0 < len(text) <= self.config.longest]
            images = torch.cat([part.images for part in parts])[kept].to(device)
            labels = encode_words([texts[number] for number in kept], self.config.longest).to(device)
            aspects = torch.cat([part.aspects for part in parts])[kept].to(device)
            self._placed["real", device] = (images, labels, aspects)
        placed: tuple[Tensor, Tensor, Tensor] = self._placed["real", device]
        return placed


def _standard(shown: Shown) -> Shown:
    return shown._replace(images=standardised(shown.images, shown.widths))


def targets_of(labels: Int[Tensor, "b l"]) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
    """What goes into a reader that writes letter by letter, and what should come out: one step more than letters."""
    real = labels >= 0
    numbers = torch.where(real, labels + FIRST, PAD)
    inputs = F.pad(numbers, (1, 0), value=BOS)
    ends = real.sum(1, keepdim=True)
    outputs = F.pad(numbers, (0, 1), value=PAD).scatter(1, ends, EOS)
    return inputs, outputs


def vocabulary_size() -> int:
    """How many numbers a reader tells apart: letters, and <pad>, <bos>, <eos> and <unk>."""
    return VOCABULARY


def _padded(images: Float[Tensor, "b 1 h w"], widths: Int[Tensor, " b"]) -> Float[Tensor, "b 1 h w"]:
    """Pictures with a middle grey from their width on."""
    outside = torch.arange(images.shape[-1], device=images.device) >= widths.unsqueeze(1)
    return images.masked_fill(outside[:, None, None, :], 0.5)


def _widths(aspects: Float[Tensor, " b"], size: tuple[int, int]) -> Int[Tensor, " b"]:
    """The columns that pictures fill in their ratio: half a height at least, and no more than there are."""
    return (aspects * size[0]).round().long().clamp(size[0] // 2, size[1])


def _in_ratio(images: Float[Tensor, "b 1 h w"], widths: Int[Tensor, " b"]) -> Float[Tensor, "b 1 h w"]:
    """Pictures that fill their frame, squeezed to their widths, with padding after them."""
    batch, _, height, width = images.shape
    columns = (torch.arange(width, device=images.device) + 0.5) / widths.unsqueeze(1) * 2 - 1  # [b w]
    rows = (torch.arange(height, device=images.device) + 0.5) / height * 2 - 1
    x, y = columns.unsqueeze(1).expand(-1, height, -1), rows.view(1, -1, 1).expand(batch, -1, width)
    squeezed = F.grid_sample(images, torch.stack([x, y], -1), padding_mode="border", align_corners=False)
    return _padded(squeezed, widths)

"""The generic vocabulary of ICDAR 2015: about 90,000 words of scenes, collected by Jaderberg et al. 2014.

No licence is stated; it is read from `REGARD_DATA` and not handed on.
"""

from regard.data.download import find
from regard.data.parallel import read_lines
from regard.data.sources import listed_sources
from regard.data.words import normalised
from regard.datasets.dataset import Dataset

LICENCE = "none stated; published with the ICDAR 2015 challenge, after Jaderberg et al. 2014"
FILE = "scene_text/GenericVocabulary.txt.gz"
SOURCES = listed_sources(
    f"f4decc04cb360302532c2170eaa5b6ad614a607b266c50af2f89cbb0fa28a036 239740 {FILE}", licence=LICENCE
)


def generic_words() -> tuple[str, ...]:
    """Its words, as labels have them: lower case, letters and digits; each once."""
    lines = (line for line in read_lines(find(SOURCES[FILE])) if not line.startswith("#"))
    return tuple(dict.fromkeys(word for word in map(normalised, lines) if word))


DATASET = Dataset(
    "generic_words",
    kind="word list",
    read=generic_words,
    splits=(),
    licence=LICENCE,
    sources=SOURCES,
    note="words of scenes, of the ICDAR 2015 challenge",
)

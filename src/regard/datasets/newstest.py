"""The news test sets of WMT: newspaper sentences in English, German and French, for evaluation.

2013 is the usual validation set, 2014 the test set of the papers. Free for research.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

LANGUAGES = ("en", "de", "fr")
YEARS = range(2008, 2015)
LICENCE = "free for research; for other uses ask the owners of the texts"
SOURCES = listed_sources(
    """
b2b2f73d616f6a928d06cb97b8b440d6892c4a7b06115ad912d4f511dee09cab   115097 wmt_newstest/newstest2008.de.gz
cf9524aa6e2d483f2aef1406f00b727ae450e182a6489b5da85d707131a54569   101086 wmt_newstest/newstest2008.en.gz
4564bf67f46f6f4169e5bd7dac689ca8787592d72d1b2703407439a886575979   109743 wmt_newstest/newstest2008.fr.gz
0a1b011086e146c20235deb13a57694f21096db9335f1acf54aab7f84ae90de5   147310 wmt_newstest/newstest2009.de.gz
9c0b5b4d516a7ba55cfae5427f03bd2d09aa99c8409df8d58183d81d4795e7fd   131592 wmt_newstest/newstest2009.en.gz
ecbea7c365a493faecf82d1193602cf6cc3e5b5d8b42d9048a45ff9c7a635fc3   144351 wmt_newstest/newstest2009.fr.gz
d6672f09e4b3e5302599a8a3cae0ad2aafd9c5fc7bfd4147f6cfb0ddaa78f99c   145690 wmt_newstest/newstest2010.de.gz
e64af335b425bd79b898d2e54c094d1cbb9d63d4a8d0d83936c1e7a44c1316be   125459 wmt_newstest/newstest2010.en.gz
ae069ad242c1db8ccfb61ed359c550766c6e3eb3f9d0b27fcc14a985db6e1dfa   138381 wmt_newstest/newstest2010.fr.gz
b417018f20a0a147c31df316aa510dc812a415066c5cf75e40dc7b63f39c454e   174247 wmt_newstest/newstest2011.de.gz
942f33c9f9c22547475aeae61d86966766b15d12607dd25bf1b7e6bc1170a2ae   151008 wmt_newstest/newstest2011.en.gz
13ccc00977f73d47c4c59f16750e19c103f2ddac40a72ae8c1341e038bf31add   167266 wmt_newstest/newstest2011.fr.gz
9e76f4766734c659e6d1816773b5b4e176126fe275d44abcad98f7dc521aeee6   170915 wmt_newstest/newstest2012.de.gz
88a1e924f2e1b60dd1d4a469bf29dc2531c2fa28581f21e999f1323325cafefc   144801 wmt_newstest/newstest2012.en.gz
041a9125a6acd0de2904d2737df28adbc6a143797658ff3a355813055a352a9b   160594 wmt_newstest/newstest2012.fr.gz
f3b87352620b54bc2bb2e314ee11595af4af957389d254303708b701a0893b5d   147953 wmt_newstest/newstest2013.de.gz
162df22a4c495e32b7039463d27085e20ffff94b816f57a96ede3b1d92ddfa3e   129266 wmt_newstest/newstest2013.en.gz
282c1a799005e1809bb742c6a5074125330572d844f283236158b2349a16c9af   144824 wmt_newstest/newstest2013.fr.gz
20b141a4dfe4c78a991f9999174f8f378565ea479ebaef056a68b16d23b74702   156142 wmt_newstest/newstest2014.en-de.de.gz
c9d36aa995abde6b41abebef6411be4f1ecc2f520f04dd6e382a232c34b36ff6   140794 wmt_newstest/newstest2014.en-de.en.gz
639cabed16968950ba756e1306c3d5a25415cd4ec86dfaa13adf4aebf8f1fa54   147123 wmt_newstest/newstest2014.en-fr.en.gz
5da04d63cf9dee55a3a3d23ff82ddd2e206ccff25b4449251ee4e632d823010f   164043 wmt_newstest/newstest2014.en-fr.fr.gz
""",
    licence=LICENCE,
)


def newstest(year: int, source: str = "en", target: str = "de") -> ParallelText:
    """One year, 2008 to 2014, in two languages of "en", "de", "fr"; in 2014 one of them must be English.

    Until 2013 a year has one text in all languages; 2014 has one with German and another with French.
    """
    if year not in YEARS:
        raise ConfigError("newstest year", got=year, expected=f"{YEARS[0]} to {YEARS[-1]}")
    if source == target or not {source, target} <= set(LANGUAGES):
        raise ConfigError(
            "newstest source and target",
            got=f"{source!r} and {target!r}",
            expected=f"two different ones of {LANGUAGES}",
        )
    stem = f"wmt_newstest/newstest{year}"
    if year == 2014:
        others = {source, target} - {"en"}
        if len(others) > 1:
            raise ConfigError(
                "newstest 2014 source and target",
                got=f"{source!r} and {target!r}",
                expected="'en' and another",
                cure="take a year before it, which has all pairs",
            )
        stem += f".en-{others.pop()}"
    return read_parallel(*(find(SOURCES[f"{stem}.{language}.gz"]) for language in (source, target)))


def _read(split: str, source: str = "en", target: str = "de") -> ParallelText:
    """A split by its name, which is that of its year: "newstest2014"."""
    year = split.removeprefix("newstest")
    if not year.isdecimal():
        raise ConfigError("newstest split", got=repr(split), expected=f"newstest{YEARS[0]} to newstest{YEARS[-1]}")
    return newstest(int(year), source, target)


DATASET = Dataset(
    "newstest",
    kind="parallel text",
    read=_read,
    splits=tuple(f"newstest{year}" for year in YEARS),
    licence=LICENCE,
    sources=SOURCES,
    note="the news tests of WMT in English, German and French, to evaluate on",
)

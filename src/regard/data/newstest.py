"""The news test sets of WMT: newspaper sentences in English, German and French, for evaluation.

2013 is the usual validation set, 2014 the test set of the papers. Free for research.
"""

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import ParallelText, read_parallel

LANGUAGES = ("en", "de", "fr")
YEARS = range(2008, 2015)


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
                cure="the years before have all pairs",
            )
        stem += f".en-{others.pop()}"
    return read_parallel(*(find(f"{stem}.{language}.gz") for language in (source, target)))

from dataclasses import dataclass, field

from regard.base.meanings import described


@dataclass(frozen=True)
class Inner:
    beams: int = 5  # how many prefixes are followed
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True)
class Base:
    smoothing: float = 0.0  # of labels


@dataclass(frozen=True)
class Outer(Base):
    """A class whose settings have comments."""

    corpus: str = "x"  # the name # of a corpus
    capture: bool = False
    inner: Inner = field(default_factory=Inner)  # not shown: it has parts


def test_comments_are_meanings() -> None:
    settings = {each.name: each for each in described(Outer(corpus="y", capture=True))}
    assert list(settings) == ["smoothing", "corpus", "capture", "inner.beams", "inner.names"]
    assert settings["smoothing"].meaning == "of labels"
    assert settings["corpus"].meaning == "the name # of a corpus"
    assert (settings["corpus"].value, settings["corpus"].default) == ("y", "x")
    assert (settings["capture"].value, settings["capture"].default, settings["capture"].meaning) == (
        "true",
        "false",
        "",
    )
    assert settings["inner.beams"].meaning == "how many prefixes are followed"
    assert settings["inner.names"].value == "a,b"


def test_a_class_without_source() -> None:
    made = dataclass(frozen=True)(type("Made", (), {"__annotations__": {"steps": int}, "steps": 3}))
    assert [(each.name, each.value, each.meaning) for each in described(made())] == [("steps", "3", "")]

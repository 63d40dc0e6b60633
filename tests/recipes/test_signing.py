"""Paths in a recipe are followed where they were given on this machine, and nowhere else."""

import dataclasses
import json
import types
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

import pytest

from regard.base import Unfollowed
from regard.data import Vocabulary, WordCodec
from regard.models import MODELS
from regard.recipes import RECIPES, Recipe, change, load_recipe, save_recipe, with_files
from regard.recipes.signing import KEY, path_settings, paths, signature, trusted
from regard.tasks import TASKS, Translation


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def recipe() -> Recipe:
    return change(with_files(RECIPES["bahdanau/plain_en_fr"](), "/mine/a.en", "/mine/a.fr"), ["start=runs/first"])


def saved(folder: Path) -> Path:
    codec = WordCodec(Vocabulary(["a"]))
    save_recipe(folder, recipe(), Translation(recipe().task, codecs=(codec, codec)))
    return folder / "recipe.json"


def is_followed(found: Recipe) -> set[bool]:
    return {not isinstance(path, Unfollowed) for path in paths(found).values()}


def test_ours_is_followed_wherever_the_folder_goes(tmp_path: Path) -> None:
    path = saved(tmp_path / "run")
    assert is_followed(load_recipe(path.parent)) == {True}
    path.parent.rename(tmp_path / "moved")
    assert load_recipe(tmp_path / "moved") == recipe()
    assert is_followed(load_recipe(tmp_path / "moved")) == {True}


@pytest.mark.parametrize("name", ["source_file", "target_file"])
def test_a_changed_path_is_not(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "run")
    content = json.loads(path.read_text())
    content["task"][name] = "/etc/passwd"
    path.write_text(json.dumps(content))
    assert is_followed(load_recipe(path.parent)) == {False}


def test_several_paths_are_signed_each(tmp_path: Path) -> None:
    several = with_files(recipe(), ["/mine/a.en", "/mine/b.en"], ["/mine/a.fr", "/mine/b.fr"])
    assert len(paths(several)) == 5
    mark = signature(several)
    assert trusted(several, mark) == several
    assert is_followed(trusted(several, mark)) == {True}
    other = with_files(recipe(), ["/mine/a.en", "/etc/passwd"], ["/mine/a.fr", "/mine/b.fr"])
    assert is_followed(trusted(other, mark)) == {False}
    assert paths(trusted(other, mark)) == paths(other)  # shown, but not opened


@pytest.mark.parametrize("signed", [None, "", "0" * 64, 7, ["é"], "é"])
def test_a_wrong_signature_is_none(signed: object) -> None:
    signature(recipe())  # there is a key
    assert is_followed(trusted(recipe(), signed)) == {False}


def test_another_user_has_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "run")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "other"))
    found = load_recipe(path.parent)
    assert is_followed(found) == {False}
    assert found == recipe()  # what is written there is known, and shown
    assert not (tmp_path / "other").exists()
    assert signature(found) is None  # nor does it become ours by being saved
    assert is_followed(with_files(found, "/mine/a.en", "/mine/a.fr")) == {True, False}  # named again; start was not


def test_the_key_is_the_users_own(cache: Path) -> None:
    first = signature(recipe())
    assert first is not None
    assert (cache / KEY).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in cache.iterdir()] == [KEY]
    assert signature(recipe()) == first
    (cache / KEY).write_bytes(b"short")
    assert signature(recipe()) is None


def test_without_a_place_for_a_key_nothing_is_signed(cache: Path) -> None:
    cache.write_text("a file")
    assert signature(recipe()) is None


def test_without_paths_there_is_nothing_to_sign(cache: Path) -> None:
    plain = RECIPES["bahdanau/plain_en_fr"]()
    assert signature(plain) is None
    assert trusted(plain, None) is plain
    assert not cache.exists()


def optional_texts(kind: type) -> dict[type, set[str]]:
    """The settings of a config, and of the configs inside it, that are a text or none: what a path could be."""
    named: dict[type, set[str]] = {kind: set()}
    for name, hint in get_type_hints(kind).items():
        choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        if str in choices and types.NoneType in choices:
            named[kind].add(name)
        for choice in choices:
            if dataclasses.is_dataclass(choice) and isinstance(choice, type):
                named |= optional_texts(choice)
    return named


def test_no_path_is_forgotten() -> None:
    """A new setting of this type is a path, and marked as one, or it is named here."""
    known = {"encoder", "vectors"}  # names of an encoder and of a set of word vectors
    kinds = [Recipe, *(paper.config for paper in MODELS.values()), *(kind.config for kind in TASKS.values())]
    named = {each: names for kind in kinds for each, names in optional_texts(kind).items()}
    for kind, names in named.items():
        cure = "give a path the type UserPath; a setting that is not a path is named in `known`"
        assert names - known == path_settings(kind), f"{kind.__name__}: {cure}"
    assert path_settings(Recipe) == {"start"}
    assert {"source_file", "caption_file", "folder", "weights", "text_file"} <= set().union(*named.values())

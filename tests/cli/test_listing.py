import pytest

from regard.cli.main import main
from regard.models import MODELS
from regard.recipes import RECIPES, figure


def test_every_recipe_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if "/" in line.split(" ")[0]}
    assert list(rows) == list(RECIPES)
    columns = [head.index(name) for name in ("paper", "data", "ours, beam", "ours, greedy", "to compare")]
    for name, build in RECIPES.items():
        recipe, line = build(), rows[name]
        year, data, beam, greedy, published = (
            line[start:end].strip() for start, end in zip(columns, [*columns[1:], None], strict=True)
        )
        assert year == str(MODELS[recipe.paper].year)
        own = " *" if recipe.task.corpus in ("tatoeba", "europarl") else ""
        assert data == f"{recipe.task.corpus} {recipe.task.source}→{recipe.task.target}{own}"
        assert beam == (figure(name) or "")
        assert greedy == (figure(name, "greedy_tokenized_bleu") or "")
        assert published == recipe.published
    assert lines[-1].startswith("regard train RECIPE")

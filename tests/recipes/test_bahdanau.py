from dataclasses import replace

from sizes import parameters

from regard.recipes import RECIPES


def test_the_sparse_one_differs_in_alignment_only() -> None:
    soft, sparse = RECIPES["bahdanau/multi30k_de_en"](), RECIPES["bahdanau/multi30k_de_en_sparse"]()
    assert sparse.model == replace(soft.model, align="sparsemax")
    assert (sparse.task, sparse.train, sparse.published) == (soft.task, soft.train, "")


def test_the_embedded_corpus_needs_no_sub_words_and_no_gpu() -> None:
    recipe = RECIPES["bahdanau/plain_en_fr"]()
    assert (recipe.task.corpus, recipe.task.units) == ("tatoeba_plain", "words")
    assert (recipe.train.capture, recipe.train.precision) == (False, "float32")


def test_size_beside_the_published_one() -> None:
    assert 0.5 * 20.5e6 < parameters("bahdanau/multi30k_de_en") < 20.5e6  # bentrevett's notebook 3

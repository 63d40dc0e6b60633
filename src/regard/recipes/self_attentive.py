"""A structured self-attentive sentence embedding (Lin et al. 2017), beside twins that pool without attention."""

from dataclasses import replace

from regard.models import SelfAttentiveConfig
from regard.recipes.recipe import Recipe
from regard.tasks import TextClassificationConfig
from regard.train import Train

IMDB = TextClassificationConfig("imdb", vocabulary=30_000, max_units=400, kept="ends", batch_size=64, fit=40)
IMDB_TRAIN = Train(  # 6 epochs of 22,500 reviews
    steps=2112, lr=1e-3, schedule="cosine", warmup=100, clip=0.5, precision="bfloat16", capture=True, ema=0.998,
    log_every=88, evaluate_every=352, save_every=1056, keep=1,
)  # fmt: skip
IMDB_MODEL = SelfAttentiveConfig(
    embed_dim=300, hidden_dim=300, attention_dim=150, hops=30, penalty=0.01, classifier="pruned", row_units=10,
    column_units=3, embed_dropout=0.5, word_dropout=0.3,
)  # fmt: skip
SMALL_MODEL = replace(IMDB_MODEL, hidden_dim=150, embed_dropout=0.3, word_dropout=0.1)  # for smaller sets
SNLI = TextClassificationConfig("snli", vectors="glove50d", batch_size=256, fit=8)
SNLI_TRAIN = Train(  # 12 epochs of 99,890 pairs
    steps=4692, lr=1e-3, schedule="cosine", warmup=200, clip=1.0, precision="bfloat16", capture=True, log_every=391,
    evaluate_every=391, save_every=2346, keep=1,
)  # fmt: skip
SNLI_MODEL = SelfAttentiveConfig(
    embed_dim=50, hidden_dim=300, attention_dim=150, hops=30, penalty=0.0, gate_dim=50, mlp_dim=1000, dropout=0.2,
    embed_dropout=0.1,
)  # fmt: skip


def smoke() -> Recipe:
    """Generated reviews, in seconds on a CPU: an opinion counts, and whether it is negated."""
    model = SelfAttentiveConfig(
        embed_dim=24, hidden_dim=24, attention_dim=24, hops=4, mlp_dim=32, penalty=0.01, dropout=0.0
    )
    train = Train(
        steps=300, lr=1e-2, schedule="linear", warmup=20, log_every=50, evaluate_every=100, save_every=300, keep=1
    )
    task = TextClassificationConfig("toy_reviews", batch_size=32)
    return Recipe("self_attentive", model, task, train, "generated reviews, on a CPU")


def imdb() -> Recipe:
    """Reviews of films are classified from 30 hops."""
    return Recipe("self_attentive", IMDB_MODEL, IMDB, IMDB_TRAIN, "film reviews, r = 30")


def imdb_max_pool() -> Recipe:
    """The twin: the largest of each number over all words, with a hidden layer on it."""
    model = replace(IMDB_MODEL, pooling="max", classifier="dense", mlp_dim=512)
    return Recipe("self_attentive", model, IMDB, IMDB_TRAIN, "film reviews, max pooling")


def imdb_mean_pool() -> Recipe:
    """The twin: the mean of all words."""
    model = replace(IMDB_MODEL, pooling="mean", classifier="dense", mlp_dim=512)
    return Recipe("self_attentive", model, IMDB, IMDB_TRAIN, "film reviews, mean pooling")


def imdb_language() -> Recipe:
    """The training reviews without their labels: what other recipes of IMDB may begin with, by `--set start=RUN`."""
    recipe = imdb_max_pool()
    model = replace(recipe.model, language=1.0, dropout=0.2, embed_dropout=0.2, word_dropout=0.1)
    train = replace(
        IMDB_TRAIN, steps=5632, warmup=200, ema=None, average=1, log_every=352, evaluate_every=5632, save_every=5632
    )  # 16 epochs
    task, note = replace(IMDB, labels=0.0), "film reviews without labels: words predict their neighbours"
    return replace(recipe, model=model, task=task, train=train, note=note)


def yelp() -> Recipe:
    """Stars of 8,000 reviews, with the sizes of IMDB and GloVe's vectors."""
    task = replace(IMDB, dataset="yelp", vocabulary=None, vectors="glove50d")
    train = replace(IMDB_TRAIN, steps=1000, evaluate_every=125, save_every=500, log_every=125)  # 8 epochs
    published = "64.21 on 500,000 reviews (Lin et al. 2017)"
    return Recipe("self_attentive", SMALL_MODEL, task, train, "stars of reviews", published)


def sst2() -> Recipe:
    """Sentences of film reviews, negative or positive, trained on all phrases of the trees."""
    task = TextClassificationConfig("sst", phrases=True, binary=True, vectors="glove50d", batch_size=128, fit=8)
    train = replace(IMDB_TRAIN, steps=3640, evaluate_every=607, save_every=1820, log_every=182)  # 6 epochs
    model = replace(SMALL_MODEL, hops=10)
    return Recipe("self_attentive", model, task, train, "sentences of film reviews, two classes")


def sst5() -> Recipe:
    """The same with five classes, very negative to very positive."""
    recipe = sst2()
    train = replace(recipe.train, steps=4980, evaluate_every=1245, save_every=2490, log_every=249)  # 4 epochs
    task, note = replace(recipe.task, binary=False), "sentences of film reviews, five classes"
    return replace(recipe, task=task, train=train, note=note)


def snli() -> Recipe:
    """Entailment, 100,000 pairs: each hop of both sentences has its own matrix."""
    published = "84.4 on 549,367 pairs (Lin et al. 2017)"
    return Recipe("self_attentive", SNLI_MODEL, SNLI, SNLI_TRAIN, "entailment, gated encoder", published)


def snli_max_pool() -> Recipe:
    """The twin: max pooling, and the features p, h, |p − h| and p ∘ h."""
    model = replace(SNLI_MODEL, pooling="max", pair="features")
    return Recipe("self_attentive", model, SNLI, SNLI_TRAIN, "entailment, max pooling")


def snli_full() -> Recipe:
    """Entailment with all 549,367 pairs, in the paper's sizes but for the word vectors."""
    task = replace(SNLI, dataset="snli_full")
    model = replace(SNLI_MODEL, gate_dim=150, mlp_dim=4000)
    train = replace(SNLI_TRAIN, steps=21_460, evaluate_every=2146, save_every=10_730)  # 10 epochs
    published = "84.4 (Lin et al. 2017)"
    return Recipe("self_attentive", model, task, train, "entailment, all pairs, gated encoder", published)

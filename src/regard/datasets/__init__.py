"""Data sets, one file each: reader, addresses, checksums, licence, splits. DATASETS is the menu, for all tasks."""

from regard.datasets import (
    cifar10,
    digits,
    europarl,
    flickr8k,
    glove50d,
    imdb,
    mnist,
    multi30k,
    newstest,
    shapes,
    snli,
    snli_full,
    sst,
    svhn,
    tatoeba,
    tatoeba_plain,
    toy_reviews,
    yelp,
)
from regard.datasets.dataset import Dataset, choose, of_kind

DATASETS: dict[str, Dataset] = {
    "tatoeba_plain": tatoeba_plain.DATASET,
    "tatoeba": tatoeba.DATASET,
    "multi30k": multi30k.DATASET,
    "europarl": europarl.DATASET,
    "newstest": newstest.DATASET,
    "digits": digits.DATASET,
    "mnist": mnist.DATASET,
    "svhn": svhn.DATASET,
    "cifar10": cifar10.DATASET,
    "flickr8k": flickr8k.DATASET,
    "shapes": shapes.DATASET,
    "toy_reviews": toy_reviews.DATASET,
    "imdb": imdb.DATASET,
    "yelp": yelp.DATASET,
    "sst": sst.DATASET,
    "snli": snli.DATASET,
    "snli_full": snli_full.DATASET,
    "glove50d": glove50d.DATASET,
}

__all__ = ["DATASETS", "Dataset", "choose", "of_kind"]

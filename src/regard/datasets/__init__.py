"""Data sets, one file each: reader, addresses, checksums, licence, splits. DATASETS is the menu, for all tasks."""

from regard.datasets import (
    babi,
    babi_small,
    cifar10,
    digits,
    europarl,
    flickr8k,
    mnist,
    multi30k,
    newstest,
    shapes,
    svhn,
    tatoeba,
    tatoeba_plain,
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
    "babi": babi.DATASET,
    "babi_small": babi_small.DATASET,
}

__all__ = ["DATASETS", "Dataset", "choose", "of_kind"]

"""Data sets, one file each: reader, addresses, checksums, licence, splits. DATASETS is the menu, for all tasks."""

from regard.datasets import (
    agreement,
    cifar10,
    digits,
    enwik8,
    europarl,
    flickr8k,
    mnist,
    multi30k,
    newstest,
    ptb,
    shapes,
    svhn,
    tatoeba,
    tatoeba_plain,
    tinyshakespeare,
    wikitext2,
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
    "agreement": agreement.DATASET,
    "ptb": ptb.DATASET,
    "wikitext2": wikitext2.DATASET,
    "tinyshakespeare": tinyshakespeare.DATASET,
    "enwik8": enwik8.DATASET,
}

__all__ = ["DATASETS", "Dataset", "choose", "of_kind"]

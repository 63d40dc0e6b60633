"""Non-local neural networks (Wang et al. 2018), as a ResNet on CIFAR-10; its plain twin is senet/plain."""

from regard.models import NonLocalConfig
from regard.recipes.recipe import Recipe
from regard.recipes.senet import CIFAR10, DIGITS, SMALL, TRAIN


def small() -> Recipe:
    """ResNet-8 with one non-local block on embedded digits: minutes on two CPU cores."""
    return Recipe("nonlocal", NonLocalConfig(depth=8), DIGITS, SMALL, "ResNet-8 with a non-local block, on a CPU", "")


def cifar10() -> Recipe:
    """ResNet-20 with one non-local block after its second stage."""
    return Recipe("nonlocal", NonLocalConfig(depth=20), CIFAR10, TRAIN, "ResNet-20 with a non-local block", "")

"""Squeeze-and-excitation networks (Hu et al. 2018) on CIFAR-10, beside their plain twins."""

from dataclasses import replace

from regard.models import ResNetConfig, SENetConfig
from regard.recipes.recipe import Recipe
from regard.tasks import ClassificationConfig
from regard.train import Train

CIFAR10 = ClassificationConfig(
    "cifar10", batch_size=256, crop=32, pad=4, mirror=True,
    mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616),
)  # fmt: skip
TRAIN = Train(  # 60 epochs
    steps=10_550, optimiser="nag", momentum=0.9, lr=0.2, weight_decay=5e-4, clip=None, schedule="cosine", warmup=880,
    precision="bfloat16", capture=True, log_every=879, evaluate_every=1758, save_every=5275, keep=1,
)  # fmt: skip


DIGITS = ClassificationConfig("digits", batch_size=32, crop=28, pad=2)
SMALL = replace(
    TRAIN, steps=400, lr=0.05, warmup=40, precision="float32", capture=False, log_every=50, evaluate_every=200,
    save_every=200,
)  # fmt: skip
CIFAR10_56 = replace(CIFAR10, erase=16)  # more layers know their pictures by heart otherwise
TRAIN_56 = replace(TRAIN, steps=21_100, warmup=1760, evaluate_every=3516)  # 120 epochs


def small() -> Recipe:
    """SE-ResNet-8 on embedded digits: minutes on two CPU cores."""
    return Recipe(
        "senet", SENetConfig(depth=8, reduction=4, normalised=True), DIGITS, SMALL, "SE-ResNet-8 on a CPU", ""
    )


def cifar10() -> Recipe:
    """SE-ResNet-20 with a quarter of the channels between the gates' layers, normalised."""
    return Recipe("senet", SENetConfig(depth=20, reduction=4, normalised=True), CIFAR10, TRAIN, "SE-ResNet-20", "")


def cifar10_56() -> Recipe:
    """SE-ResNet-56. If the norm of its gates decayed too, most of them would end where they began, at one half."""
    model, train = SENetConfig(depth=56, reduction=4, normalised=True), replace(TRAIN_56, undecayed=("gate.norm",))
    return Recipe("senet", model, CIFAR10_56, train, "SE-ResNet-56", "")


def plain() -> Recipe:
    """ResNet-20, the twin."""
    return Recipe("resnet", ResNetConfig(depth=20), CIFAR10, TRAIN, "ResNet-20", "8.75 (He et al. 2016)")


def plain_56() -> Recipe:
    """ResNet-56, the twin."""
    published = "6.97 (He et al. 2016, without cutout)"
    return Recipe("resnet", ResNetConfig(depth=56), CIFAR10_56, TRAIN_56, "ResNet-56", published)

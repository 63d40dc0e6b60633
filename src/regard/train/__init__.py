"""Training: one loop for every task, checkpoints that survive anything, the same losses on any number of processes."""

from regard.train.averaging import RunningMean, mean_of
from regard.train.checkpoint import (
    CheckpointError,
    checkpoints,
    load_checkpoint,
    load_tensors,
    load_weights,
    save_checkpoint,
    save_tensors,
    start_from,
    weights,
)
from regard.train.distributed import LostError, World, choose_device, joined
from regard.train.launch import was_restarted
from regard.train.optim import build_optimiser
from regard.train.schedule import learning_rate
from regard.train.settings import OPTIMISERS, SCHEDULES, Train
from regard.train.trainer import Trainer, train_model

__all__ = [
    "OPTIMISERS",
    "SCHEDULES",
    "CheckpointError",
    "LostError",
    "RunningMean",
    "Train",
    "Trainer",
    "World",
    "build_optimiser",
    "checkpoints",
    "choose_device",
    "joined",
    "learning_rate",
    "load_checkpoint",
    "load_tensors",
    "load_weights",
    "mean_of",
    "save_checkpoint",
    "save_tensors",
    "start_from",
    "train_model",
    "was_restarted",
    "weights",
]

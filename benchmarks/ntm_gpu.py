"""Training of a neural Turing machine on the copy task: sequences a second, ours beside a plain port.

    python benchmarks/ntm_gpu.py
    python benchmarks/ntm_gpu.py --check        # only compares, at small sizes; on a CPU too
    python benchmarks/ntm_gpu.py --steps        # captured updates of all problems, by one kernel a step or without it

The port is written as the public program pytorch-ntm of loudinthecloud goes about it, in code of our own: a module for
each head, a step of Python for each step in time, the circular shift row by row, sequences of one random length in a
batch (one sequence, unless told), RMSprop, gradients clipped one by one. Ours are the trainer's updates of the recipe
`ntm/copy`, eager and captured; each has the 41 steps of the longest sequence. Ratios are those at equal batches, and
beside them stands the ratio to the port as it trains, with one sequence. Before anything is timed, logits and gradients
are compared with the port in float64: see gate.py. Rows are added to results/ntm_gpu.csv.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from gate import Refusals, Results, describe, judge_results
from timing import append, side_by_side
from torch import Tensor, nn
from updates import Updates

from regard.data.algorithms import Sequences
from regard.data.pictures import Rows
from regard.models import NTM, NTMConfig
from regard.models.ntm import Emitted
from regard.recipes import RECIPES
from regard.tasks import Algorithmic, Loss
from regard.tasks.algorithmic import costs
from regard.train import Train

BATCHES = (1, 64)
PROBLEMS = ("copy", "repeat_copy", "recall", "ngrams", "sort")
SMALL = NTMConfig(inputs=5, outputs=4, hidden_dim=12, slots=9, slot_dim=6)


class PortHead(nn.Module):
    """A head that reads or writes: its own layer, and its own addressing."""

    def __init__(self, config: NTMConfig, *, writes: bool) -> None:
        super().__init__()
        width = config.slot_dim
        self.sizes = [width, 1, 1, 3, 1, *([width, width] if writes else [])]
        self.layer = nn.Linear(config.hidden_dim, sum(self.sizes))

    def address(self, memory: Tensor, parts: tuple[Tensor, ...], before: Tensor) -> Tensor:
        """The weights [b n] of this step."""
        key, strength, gate, shift, sharpness = parts
        alike = F.cosine_similarity(memory, torch.tanh(key).unsqueeze(1), dim=-1)
        content = F.softmax(F.softplus(strength) * alike, 1)
        gate, shift = torch.sigmoid(gate), F.softmax(shift, 1)
        mixed = gate * content + (1 - gate) * before
        moved = torch.zeros_like(mixed)
        for row in range(len(mixed)):
            circle = torch.cat([mixed[row, -1:], mixed[row], mixed[row, :1]])
            moved[row] = F.conv1d(circle.view(1, 1, -1), shift[row].flip(0).view(1, 1, -1)).view(-1)
        sharp = moved ** (1 + F.softplus(sharpness))
        return sharp / sharp.sum(1, keepdim=True)


class Port(nn.Module):
    """The network as a plain program writes it, with the weights of an `NTM` that has one head of each kind."""

    def __init__(self, model: NTM) -> None:
        super().__init__()
        config = model.config
        self.width = config.slot_dim
        self.lstm = nn.LSTM(config.inputs + config.slot_dim, config.hidden_dim)
        self.read, self.write = PortHead(config, writes=False), PortHead(config, writes=True)
        self.fc = nn.Linear(config.hidden_dim + config.slot_dim, config.outputs)
        self.first_hidden = nn.Parameter(model.first_hidden.detach().clone())
        self.first_focus = nn.Parameter(model.first_focus.detach().clone())
        self.first_reads = nn.Parameter(model.first_reads.detach().clone())
        self.register_buffer("first_memory", model.first_memory.detach().clone())
        self.lstm.load_state_dict(model.controller.state_dict())
        self.fc.load_state_dict(model.to_output.state_dict())
        with torch.no_grad():
            for name in ("weight", "bias"):
                read, written, erase_add = getattr(model.to_heads, name).split(self.rows(), 0)
                getattr(self.read.layer, name).copy_(read)
                getattr(self.write.layer, name).copy_(torch.cat([written, erase_add]))

    def rows(self) -> list[int]:
        """How our layer of all heads is cut: addressing of the reader, of the writer, erase and add."""
        return [self.width + 6, self.width + 6, 2 * self.width]

    def forward(self, inputs: Tensor) -> Emitted:
        """Step after step, head after head."""
        batch = len(inputs)
        memory = self.first_memory.expand(batch, -1, -1)
        focus = self.first_focus.softmax(-1).expand(batch, -1, -1)
        reading, writing = focus[:, 0], focus[:, 1]
        read = self.first_reads.expand(batch, -1)
        hidden, cell = self.first_hidden.expand(batch, -1, -1, -1).unbind(1)
        state = hidden.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous()
        logits = []
        for step in range(inputs.shape[1]):
            out, state = self.lstm(torch.cat([inputs[:, step], read], 1).unsqueeze(0), state)
            out = out.squeeze(0)
            reading = self.read.address(memory, self.read.layer(out).split(self.read.sizes, 1), reading)
            read = torch.matmul(reading.unsqueeze(1), memory).squeeze(1)
            *parts, erase, add = self.write.layer(out).split(self.write.sizes, 1)
            writing = self.write.address(memory, tuple(parts), writing)
            erased = torch.matmul(writing.unsqueeze(-1), torch.sigmoid(erase).unsqueeze(1))
            memory = memory * (1 - erased) + torch.matmul(writing.unsqueeze(-1), torch.tanh(add).unsqueeze(1))
            logits.append(self.fc(torch.cat([out, read], 1)))
        return Emitted(torch.stack(logits, 1))

    def gradients(self) -> list[Tensor]:
        """The gradients in the order of `ours`."""
        layers = [
            torch.cat([getattr(self.read.layer, name).grad, getattr(self.write.layer, name).grad])
            for name in ("weight", "bias")
        ]
        starts = [self.first_hidden.grad, self.first_focus.grad, self.first_reads.grad]
        return [*(p.grad for p in self.lstm.parameters()), *layers, *(p.grad for p in self.fc.parameters()), *starts]


def ours(model: NTM) -> list[nn.Parameter]:
    """The parameters of our network, in the order in which they are compared."""
    layers = [*model.controller.parameters(), *model.to_heads.parameters(), *model.to_output.parameters()]
    return [*layers, model.first_hidden, model.first_focus, model.first_reads]


class Given(Algorithmic):
    """The task of sequences that are given, for the comparison: both sides see the same ones."""

    def __init__(self, sequences: Sequences) -> None:
        super().__init__(RECIPES["ntm/copy"]().task)
        self.sequences = sequences

    def loss(self, model: Callable[..., Emitted], batch: Rows) -> Loss:
        """The cost in bits, summed."""
        rows = self.sequences.take(batch.rows)
        return Loss(costs_of(model(rows.inputs).logits, rows))


def costs_of(logits: Tensor, sequences: Sequences) -> Tensor:
    """The cost in bits, summed, in the precision of the logits."""
    nats = F.binary_cross_entropy_with_logits(logits, sequences.targets.to(logits.dtype), reduction="none").sum(-1)
    return nats.masked_fill(~sequences.scored, 0.0).sum() / torch.tensor(2.0, dtype=logits.dtype).log().item()


def start(config: NTMConfig) -> NTM:
    torch.manual_seed(0)
    return NTM(config)


def port_results(config: NTMConfig, sequences: Sequences, dtype: torch.dtype) -> Results:
    """Logits and gradients of the port."""
    port = Port(start(config)).to(sequences.inputs.device, dtype)
    logits = port(sequences.inputs.to(dtype)).logits
    (costs_of(logits, sequences) / len(logits)).backward()
    return {"logits": logits.detach(), "gradients": port.gradients()}


def our_results(config: NTMConfig, sequences: Sequences, *, capture: bool) -> Results:
    """Logits and gradients of ours, by the trainer's own update."""
    model, device = start(config), sequences.inputs.device
    run = Updates(model, Given(sequences), Train(clip=None, capture=capture), device)
    with torch.no_grad():
        logits = model(sequences.inputs).logits
    run.update(Rows(torch.arange(len(logits))))
    return {"logits": logits, "gradients": run.gradients(ours(model))}


def gate(device: torch.device, *, small: bool) -> dict[str, str]:
    """Each way against the port in float64, beside the port in float32; what is refused."""
    task = Algorithmic(RECIPES["ntm/copy"]().task)
    config = SMALL if small else task.complete(RECIPES["ntm/copy"]().model)
    problem = replace(task.problem, bits=config.outputs, longest=4 if small else 20)
    sequences = Sequences(*(t.to(device) for t in problem.draw(4, generator=torch.Generator().manual_seed(1))))
    exact, eager = (port_results(config, sequences, dtype) for dtype in (torch.float64, torch.float32))
    ways = {"port": eager, "regard, eager": our_results(config, sequences, capture=False)}
    if device.type == "cuda":
        ways["regard, captured"] = our_results(config, sequences, capture=True)
    errors, refused = judge_results(ways, eager=eager, exact=exact)
    print(describe(errors), flush=True)
    return refused


def port_updates(batch: int, device: torch.device) -> Callable[[], None]:
    """One update after the other by the port, each of new sequences of one length."""
    task = Algorithmic(RECIPES["ntm/copy"]().task)
    port = Port(start(task.complete(RECIPES["ntm/copy"]().model))).to(device)
    optimiser = torch.optim.RMSprop(port.parameters(), lr=1e-4, momentum=0.9, alpha=0.95)
    chance = torch.Generator().manual_seed(1)

    def update() -> None:
        length = int(torch.randint(1, 21, (), generator=chance))
        sequences = task.problem.draw(batch, length=length, device=device)
        optimiser.zero_grad()
        costs(port(sequences.inputs).logits, sequences).mean().backward()
        for parameter in port.parameters():
            parameter.grad.clamp_(-10, 10)
        optimiser.step()

    return update


def our_updates(
    batch: int, device: torch.device, *, capture: bool, problem: str = "copy", impl: str = "auto"
) -> Callable[[], None]:
    """One update after the other by the trainer's steps."""
    recipe = RECIPES[f"ntm/{problem}"]()
    task = Algorithmic(recipe.task)
    model = start(task.complete(recipe.model))
    model.attention.impl = impl
    run = Updates(model, task, replace(recipe.train, capture=capture), device)
    return lambda: run.update(Rows(torch.arange(batch)))


def compare_steps(device: torch.device, *, save: bool) -> None:
    """Captured updates of each problem, with one kernel a step and with the operations of torch."""
    batch = BATCHES[-1]
    for problem in PROBLEMS:
        ways = {
            way: our_updates(batch, device, capture=True, problem=problem, impl=impl)
            for way, impl in (("operations", "reference"), ("one kernel", "auto"))
        }
        times = {way: statistics.median(each) for way, each in side_by_side(ways, rounds=5).items()}
        for way, seconds in times.items():
            row = {"batch": batch, "way": f"{problem}, {way}", "per_second": round(batch / seconds, 1),
                   "ratio": round(times["operations"] / seconds, 1), "to_one_sequence": ""}  # fmt: skip
            print(f"  {row['way']:26} {1000 * seconds:7.1f} ms an update, {row['ratio']} ×", flush=True)
            if save:
                append("ntm_gpu.csv", [row])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="only compare, at small sizes; on a CPU too")
    arguments.add_argument("--steps", action="store_true", help="updates with the kernel of a step and without")
    arguments.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = arguments.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not asked.check:
        raise SystemExit("this benchmark needs a CUDA device; --check compares without one")
    torch.backends.cudnn.allow_tf32 = False  # torch allows it to cuDNN's LSTM, which only the port calls
    refused, refusals = gate(device, small=asked.check), Refusals()
    refusals.add(refused.values())
    if asked.check:
        refusals.end()
        return
    if asked.steps:
        compare_steps(device, save=asked.save)
        refusals.end()
        return
    alone = 0.0  # sequences a second of the port as it trains
    for batch in BATCHES:
        ways: dict[str, Callable[[], None]] = {"port": port_updates(batch, device)}
        for way, capture in (("regard, eager", False), ("regard, captured", True)):
            if way not in refused:
                ways[way] = our_updates(batch, device, capture=capture)
        seconds = side_by_side(ways, rounds=20 if batch == 1 else 8)
        speeds = {way: batch / statistics.mean(times) for way, times in seconds.items()}  # lengths differ
        alone = alone or speeds["port"]
        rows = [
            {"batch": batch, "way": way, "per_second": round(speed, 1), "ratio": round(speed / speeds["port"], 1),
             "to_one_sequence": round(speed / alone, 1)}
            for way, speed in speeds.items()
        ]  # fmt: skip
        for row in rows:
            print(f"  batch {batch:4} {row['way']:18} {row['per_second']:10,.1f} sequences a second, {row['ratio']} × "
                  f"at this batch, {row['to_one_sequence']} × the port with one", flush=True)  # fmt: skip
        if asked.save:
            append("ntm_gpu.csv", rows)
    refusals.end()


if __name__ == "__main__":
    main()

"""Train on two machines with two processes each, end one of them by SIGKILL, and compare with one process.

    python tools/two_nodes.py

The two machines are two network namespaces of Linux on this machine, joined by a pair of virtual interfaces. That
needs root and the command `ip`; without them both agents of `torchrun` meet on the loopback interface, and the first
line of the output says so. A small Transformer learns 45 pairs of sentences, which are made here, without dropout:

1. by one process;
2. by 2 × 2 processes: every loss must be that of one process within 1e-5;
3. by 2 × 2 processes, of which one is killed in the middle: torchrun starts all again, and all weights, moments, means
   and losses in the run folder at the end must be bit-equal to those of the second training;
4. by 2 × 2 processes, of which one machine is lost in the middle, with all that runs there: two processes go on;
5. from a checkpoint in the middle of the second training, by two processes and by one: losses as in 1.

2 to 5 are done with copies of the weights (DDP) and with shards of them (train.shard=true). Exit status 1 on a fault.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.train import checkpoints, load_checkpoint
from regard.train.checkpoint import is_sharded

STEPS, HALF = 24, 12
TOLERANCE = 1e-5
NUMBERS = ("one", "two", "three", "four", "five")
RECIPE = "transformer/plain_en_fr"
SIZES = [
    "model.dim=32", "model.hidden_dim=64", "model.num_heads=2", "model.encoder_layers=2", "model.decoder_layers=2",
    "model.dropout=0", "task.batch_size=16", "task.batch_tokens=none", "train.warmup=0", "train.lr=0.001",
    "train.schedule=constant", "train.log_every=1", "train.evaluate_every=8", "train.save_every=4", "train.ema=0.9",
    "train.keep=20",
]  # fmt: skip
TIMES = ("seconds", "per_second", "preparing", "mark")  # what differs between two runs that are equal


@dataclass(frozen=True)
class Node:
    """A machine, or what stands for one."""

    address: str
    prefix: Sequence[str] = ()  # of a command that runs there
    interface: str = "lo"


@contextmanager
def two_nodes() -> Iterator[tuple[tuple[Node, Node], str]]:
    """Two network namespaces, joined by a pair of interfaces, or twice the loopback interface; and what they are."""
    tag = f"{os.getpid() % 100_000}"
    names, ends = [f"regard{tag}n{i}" for i in (0, 1)], [f"rg{tag}e{i}" for i in (0, 1)]
    addresses = ["10.213.77.1", "10.213.77.2"]
    try:
        try:
            for name in names:
                _ip("netns", "add", name)
            _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for name, end, address in zip(names, ends, addresses, strict=True):
                _ip("link", "set", end, "netns", name)
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                for device in (end, "lo"):
                    _ip("-n", name, "link", "set", device, "up")
        except (OSError, subprocess.CalledProcessError):
            loopback = Node("127.0.0.1")
            yield (loopback, loopback), "two agents on the loopback interface (no network namespaces here)"
        else:
            first, second = (
                Node(address, ("ip", "netns", "exec", name), end)
                for name, end, address in zip(names, ends, addresses, strict=True)
            )
            yield (first, second), "two network namespaces, joined by a veth pair"
    finally:
        for name in names:
            with suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "del", name)  # the interfaces go with them


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Launch:
    """`torchrun` on each node, with one agent each: `agents` are their processes.

    Another program that takes the arguments of `torchrun` may start them: `torchrun`.
    """

    def __init__(
        self, nodes: Sequence[Node], processes: int, command: Sequence[str], log: Path, *, restarts: int = 0,
        fewest: int | None = None, torchrun: Sequence[str] = ("-m", "torch.distributed.run"),
    ) -> None:  # fmt: skip
        endpoint, self.agents = f"{nodes[0].address}:{free_port()}", []
        machines = f"{fewest or len(nodes)}:{len(nodes)}"
        for number, node in enumerate(nodes):
            words = [
                *node.prefix, sys.executable, *torchrun, "--nnodes", machines,
                "--nproc-per-node", str(processes), "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
                "--rdzv-conf", f"is_host={int(number == 0)}", "--local-addr", node.address,
                "--max-restarts", str(restarts), "--monitor-interval", "0.1", *command,
            ]  # fmt: skip
            surroundings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": node.interface}
            with open(log.with_name(f"{log.stem}_{number}{log.suffix}"), "wb") as file:
                self.agents.append(
                    subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **surroundings})
                )

    def wait(self, *, limit: float = 900) -> list[int]:
        """How the agents ended."""
        try:
            return [agent.wait(limit) for agent in self.agents]
        finally:
            for agent in self.agents:
                if agent.poll() is None:
                    agent.terminate()

    def kill(self, node: int, *, all_of_it: bool) -> None:
        """End the last process of a node by SIGKILL, or everything there, its agent included."""
        numbers = [*self.workers(node), self.agents[node].pid] if all_of_it else self.workers(node)[-1:]
        for number in reversed(numbers):
            os.kill(number, signal.SIGKILL)

    def workers(self, node: int) -> list[int]:
        """The processes that the agent of a node has started."""
        number = self.agents[node].pid
        listed = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        return sorted(int(each) for each in listed)


# ── the trainings ───────────────────────────────────────────────────────────────────────────────────────────────────


def write_pairs(path: Path) -> Path:
    """45 pairs of sentences, made of numbers."""
    pairs = [f"{a} and {b} {c}\t{c} {b} et {a}\n" for a in NUMBERS[:3] for b in NUMBERS for c in NUMBERS[:3]]
    path.write_text("".join(pairs))
    return path


def command_of(table: Path, folder: Path, *settings: str, steps: int = STEPS, resume: bool = False) -> list[str]:
    """The words after `torchrun …` or `python`."""
    words = ["-m", "regard", "train", RECIPE, "--source", str(table), "--out", str(folder), "--device", "cpu"]
    return [*words, *(["--resume"] if resume else []), "--set", *SIZES, f"train.steps={steps}", *settings]


def losses_of(folder: Path) -> list[float]:
    """The training losses that a run has logged so far; a half-written last line is left out."""
    found = []
    with suppress(OSError):
        for line in (folder / "metrics.jsonl").read_text().splitlines():
            with suppress(json.JSONDecodeError):
                record = json.loads(line)
                if record["kind"] == "train":
                    found.append(float(record["loss"]))
    return found


def difference(losses: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference of two losses, as a share; infinite where there are more of one."""
    if len(losses) != len(others):
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses, others, strict=True))


def faults(folder: Path, undisturbed: Path) -> list[str]:
    """What differs between two run folders, times apart: byte for byte, but for shards, whose heads have no order."""
    names, wanted = ({str(path.relative_to(run)) for path in run.rglob("*")} for run in (folder, undisturbed))
    found = [f"other files: {sorted(names ^ wanted)}"] if names != wanted else []
    for name in sorted(names & wanted):
        one, other = folder / name, undisturbed / name
        if one.is_dir() or name.rpartition("/")[2].startswith("shard-"):
            if is_sharded(one) and not _same_tensors(one, other):
                found.append(f"{name} differs")
            continue
        timed = name.endswith(("metrics.jsonl", "state.json"))
        same = _without_times(one) == _without_times(other) if timed else one.read_bytes() == other.read_bytes()
        if not same:
            found.append(f"{name} differs")
    return found


def _same_tensors(one: Path, other: Path) -> bool:
    (files, _), (others, _) = load_checkpoint(one), load_checkpoint(other)
    return files.keys() == others.keys() and all(
        tensors.keys() == others[file].keys()
        and all(torch.equal(tensor, others[file][name]) for name, tensor in tensors.items())
        for file, tensors in files.items()
    )


def _without_times(path: Path) -> list[dict[str, object]]:
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    left_out = (*TIMES, "sha256", "files")  # state.json: checksums, of itself and of files that are compared
    return [{key: value for key, value in json.loads(line).items() if key not in left_out} for line in lines]


class Trial:
    """The trainings of one kind, in folders of one place."""

    def __init__(self, place: Path, nodes: tuple[Node, Node], kind: str) -> None:
        self.place, self.nodes, self.kind = place / kind, nodes, kind
        self.place.mkdir()
        self.table = write_pairs(self.place / "pairs.tsv")
        self.settings = ["train.shard=true"] if kind == "shard" else []

    def alone(self, name: str, **options: object) -> Path:
        """One process, without `torchrun`."""
        folder = self.place / name
        words = [sys.executable, *command_of(self.table, folder, *self.settings, **options)]  # type: ignore[arg-type]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode != 0:
            raise SystemExit(f"{name} failed:\n{done.stderr}")
        return folder

    def together(
        self, name: str, *, nodes: int = 2, kill_at: int = 0, machine: bool = False, **options: object
    ) -> tuple[Path, int]:
        """`nodes` × 2 processes. The folder, and how many losses were logged when the second `machine` was lost.

        Or only one process of it, at `kill_at`, or nothing at 0.
        """
        folder, log, seen = self.place / name, self.place / f"{name}.log", 0
        words = command_of(self.table, folder, *self.settings, **options)  # type: ignore[arg-type]
        launch = Launch(self.nodes[:nodes], 2, words, log, restarts=3 if kill_at else 0, fewest=1 if machine else None)
        while kill_at and (seen := len(losses_of(folder))) < kill_at and launch.agents[1].poll() is None:
            time.sleep(0.01)
        if kill_at:
            launch.kill(1, all_of_it=machine)
        ends = launch.wait()
        if any(ends[: 1 if machine else 2]):
            logs = "\n".join(path.read_text() for path in sorted(self.place.glob(f"{name}_*.log")))
            raise SystemExit(f"{name} failed, exit status {ends}:\n{logs}")
        return folder, seen

    def rows(self, one: Sequence[float]) -> Iterator[tuple[str, str, bool]]:
        """What was done, what came of it, and whether it is as it should be, beside the losses of one process."""
        whole, _ = self.together("whole")
        far = difference(losses_of(whole), one)
        yield "2 × 2 processes, losses beside one process", f"largest difference {far:.1e}", far <= TOLERANCE
        killed, seen = self.together("killed", kill_at=HALF)
        found = faults(killed, whole)
        told = "; ".join(found) if found else "bit-equal"
        yield f"one of 2 × 2 killed after step {seen}, started again", told, not found and 0 < seen < STEPS
        lost, seen = self.together("lost", kill_at=HALF, machine=True)
        far = difference(losses_of(lost), one)
        what = f"machine with 2 of 2 × 2 lost after step {seen}"
        yield what, f"largest difference {far:.1e}", far <= TOLERANCE and 0 < seen < STEPS
        for processes in (2, 1):
            name = f"on_{processes}"
            shutil.copytree(whole, self.place / name)
            for later in checkpoints(self.place / name / "checkpoints")[HALF // 4 :]:
                shutil.rmtree(later)
            if processes == 2:
                self.together(name, nodes=1, resume=True)
            else:
                self.alone(name, resume=True)
            far = difference(losses_of(self.place / name), one)
            yield f"checkpoint of 2 × 2 goes on with {processes}", f"largest difference {far:.1e}", far <= TOLERANCE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the run folders where they are")
    parser.add_argument("--only", choices=["copies", "shard"], help="one of the two kinds")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # namespaces are removed then too
    place, good = Path(tempfile.mkdtemp(prefix="two_nodes_")), True
    os.environ["REGARD_CACHE"] = str(place / "cache")  # where the key lies that signs paths in recipes
    with two_nodes() as (nodes, what):
        print(f"{what}; {STEPS} steps", flush=True)
        one = losses_of(Trial(place, nodes, "one").alone("one"))
        for kind in [asked.only] if asked.only else ["copies", "shard"]:
            for did, came, right in Trial(place, nodes, kind).rows(one):
                print(f"{kind:7} {did:48} {came:30} {'right' if right else 'WRONG'}", flush=True)
                good = good and right
    if asked.keep or not good:
        print(f"run folders: {place}")
    else:
        shutil.rmtree(place)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

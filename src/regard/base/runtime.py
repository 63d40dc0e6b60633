"""What this machine is: the facts that stand beside every figure and in every bug report."""

import os
import platform
import subprocess


def environment() -> dict[str, str]:
    """Versions and hardware, as short strings."""
    import torch

    from regard import __version__

    facts = {
        "regard": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def free_memory() -> int:
    """The bytes of memory that this process may still take; where nobody says, more than any machine has."""
    known = [2**63 - 1]
    for path, start in (("/proc/meminfo", "MemAvailable:"), ("/sys/fs/cgroup/memory.max", "")):
        try:
            with open(path, encoding="utf-8") as file:
                line = next(line for line in file if line.startswith(start)).removeprefix(start).split()
            known.append(int(line[0]) * (1024 if line[1:] == ["kB"] else 1))
        except (OSError, StopIteration, ValueError):  # another system, no container, or "max"
            continue
    return min(known)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else _asked() or platform.processor() or "unknown"


def _asked() -> str:
    """What lscpu calls the processor: on ARM, Linux itself has numbers only. "" where there is no such program."""
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=5, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return ""
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in said.stdout.splitlines())}
    return " ".join(facts[key] for key in ("Vendor ID", "Model name") if facts.get(key, "-") != "-")

"""Fused additive attention: `cases.py`, by Triton's interpreter here, and on a GPU where there is one."""

import subprocess
import sys

import child
import pytest
import torch

from regard.kernels import fused_additive, reasons_against_triton


def test_many_queries() -> None:
    child.run("cases.py", "-k", "not single and not steps", interpret=True, slow=False)


@pytest.mark.slow
def test_what_takes_long() -> None:
    child.run("cases.py", interpret=True, slow=True)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    child.run("cases.py", interpret=False)


def test_reasons() -> None:
    tensors = [torch.ones(2, 3, 4, dtype=torch.float64), torch.ones(2, 5, 300), torch.ones(2, 5, 257)]
    assert reasons_against_triton("cuda", *(x[..., :4].float() for x in tensors)) == []
    assert reasons_against_triton(torch.device("cpu"), *tensors) == [
        "device is cpu, not cuda",
        "query is torch.float64, not float32, bfloat16 or float16",
        "keys are 300 wide, more than 256",
        "values are 257 wide, more than 256",
    ]


def test_refuses_where_it_cannot_run() -> None:
    query = torch.ones(1, 2, 3)
    with pytest.raises(ValueError, match=r"cannot run here: device is cpu, not cuda. Try: use blocked_additive"):
        fused_additive(query, query, query, torch.ones(3))


def test_triton_is_not_imported_before_the_call() -> None:
    code = "import sys, regard.kernels; assert 'regard.kernels.tiled' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_can_be_read_without_triton() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from regard.kernels import gradients, launch, single_query, tiled\n"
        "assert launch.triton is None and launch.power_of_two(5) == 8"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

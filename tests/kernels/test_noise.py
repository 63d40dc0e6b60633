"""Seeds for dropout inside of kernels: shared in a block, from torch's generator, and new each time."""

import pytest
import torch

from regard.kernels.noise import STEPS, kept_scale, next_site, one_seed, threshold

CPU = torch.device("cpu")


def test_one_seed_for_all_layers_of_a_block() -> None:
    with one_seed():
        draws = [next_site(CPU) for _ in range(5)]
    assert len({seed.item() for seed, _ in draws}) == 1
    assert len({site for _, site in draws}) == 5
    assert all(site % 2 and site > 1 for _, site in draws)  # Triton compiles 1 and multiples of 16 apart
    with one_seed():
        other, site = next_site(CPU)
    assert other.item() != draws[0][0].item()
    assert site == draws[0][1]


def test_outside_of_a_block_each_call_has_its_own() -> None:
    assert len({next_site(CPU)[0].item() for _ in range(5)}) == 5
    with one_seed():
        shared, _ = next_site(CPU)
        with one_seed():
            inner, _ = next_site(CPU)
        again, _ = next_site(CPU)
    assert shared.item() == again.item() != inner.item()


def test_seeds_follow_the_generator() -> None:
    torch.manual_seed(5)
    first = next_site(CPU)[0].item()
    state = torch.get_rng_state()
    second = next_site(CPU)[0].item()
    torch.set_rng_state(state)
    assert next_site(CPU)[0].item() == second
    torch.manual_seed(5)
    with one_seed():
        assert next_site(CPU)[0].item() == first


def test_a_block_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), one_seed():
        raise KeyError
    assert next_site(CPU)[1] == 3


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.999])
def test_what_survives_keeps_the_mean(p: float) -> None:
    lost = threshold(p)
    assert abs(lost / STEPS - p) <= 0.5 / STEPS
    assert (1 - lost / STEPS) * kept_scale(lost) == pytest.approx(1.0)

import numpy as np
import pytest

from regard.base import ConfigError
from regard.viz import SeenLayer, head_grid


def test_a_square_for_each_head_shows_its_pooled_weights() -> None:
    rng = np.random.default_rng(0)
    wide = SeenLayer("decoder.0.cross", rng.dirichlet(np.ones(130), (3, 128)), [0, 1, 4], range(128))
    narrow = SeenLayer("decoder.$x$.cross", rng.dirichlet(np.ones(4), (2, 5)), [0, 1], range(5))
    for dark in (False, True):
        ax = head_grid([wide, narrow], title="Heads", dark=dark)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "$x$"]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "4"]
        assert [image.get_array().shape for image in ax.images] == [(64, 64)] * 3 + [(5, 4)] * 2
        means = wide.weights[1].reshape(64, 2, 130).mean(1)
        np.testing.assert_allclose(np.asarray(ax.images[1].get_array())[:, 0], means[:, :2].mean(1), rtol=1e-6)


def test_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs layers"):
        head_grid([])

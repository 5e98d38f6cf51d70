"""Sources mixed by a Moebius map, whose Jacobian has orthogonal columns everywhere (Gresele 2021, Reizinger 2022).

A conformal map keeps angles: its Jacobian is a rotation or reflection times a number, so that J^T J is a multiple of
the identity, and the IMA contrast of the true mixing is 0. From three dimensions on, the Moebius maps are all of the
conformal maps (Liouville). Whether orthogonal columns find the sources can therefore be tested on these data exactly.
"""

from typing import NamedTuple

import numpy as np

from vae_tf.data import dataset, in_memory
from vae_tf.data.registry import register
from vae_tf.typing import Floats

EXAMPLES = 50_000
VERSION = 1         # raise it with any change that alters the examples
MARGIN = 0.5        # the distance from the pole of the map to the ball around the cube of sources


class Moebius(NamedTuple):
    """The map s -> centre + A (s - pole) / |s - pole|^2.

    pole: the point [d] that is mapped to infinity. A: an orthogonal matrix [d, d] times a number. centre: [d].
    """

    pole: Floats
    A: Floats
    centre: Floats

    def mix(self, s: Floats) -> Floats:
        """Return x [N, d], float64, of sources s [N, d]."""
        away = s - self.pole
        mixed: Floats = self.centre + (away / np.sum(away**2, 1, keepdims=True)) @ self.A.T
        return mixed

    def compute_jacobian(self, s: Floats) -> Floats:
        """Return dx / ds [N, d, d], float64, at sources s [N, d]: A (I - 2 r r^T) / |s - pole|^2.

        r is the unit vector from the pole to s, and I - 2 r r^T is the reflection along it.
        """
        away = s - self.pole
        squares = np.sum(away**2, 1)[:, np.newaxis, np.newaxis]
        reflection = np.eye(len(self.pole)) - 2 * away[:, :, np.newaxis] * away[:, np.newaxis] / squares
        jacobian: Floats = self.A @ reflection / squares
        return jacobian


def draw_sources(seed: int = 0, sources: int = 2) -> Floats:
    """Return the sources of `make_conformal_mixture`: float64 [50,000, d], evenly spread over the cube [0, 1]^d."""
    return np.random.default_rng([seed, 0]).uniform(size=(EXAMPLES, sources))


def draw_map(seed: int = 0, sources: int = 2) -> Moebius:
    """Return the mixing of `make_conformal_mixture`.

    The pole lies in a random direction from the middle of the cube, MARGIN outside the smallest ball around it. The map
    then moves and scales its values so that the entries of x have mean 0, and a mean variance of 1, over the examples.

    Args:
        seed: the seed of the direction and of the orthogonal matrix.
        sources: d.
    """
    rng = np.random.default_rng([seed, 1])
    direction = rng.standard_normal(sources)
    pole = 0.5 + direction / np.linalg.norm(direction) * (np.sqrt(sources) / 2 + MARGIN)
    upper = np.linalg.qr(rng.standard_normal((sources, sources)))
    raw = Moebius(pole, upper.Q * np.sign(np.diag(upper.R)), np.zeros(sources))     # Haar-distributed
    x = raw.mix(draw_sources(seed, sources))
    scale = 1 / np.sqrt(x.var(0).mean())
    return raw._replace(A=scale * raw.A, centre=-scale * x.mean(0))


def make_conformal_mixture(seed: int = 0, sources: int = 2) -> dataset.Dataset:
    """Return x = f(s) for sources s that are uniform on [0, 1]^d, mixed by a Moebius map f = `draw_map(seed, sources)`.

    The factors are the sources. There is no noise, and x has as many entries as there are sources.

    Args:
        seed: the seed of the sources and of the map.
        sources: d.
    """
    s = draw_sources(seed, sources)
    x = draw_map(seed, sources).mix(s)
    factors = tuple(dataset.Factor(f"s{k + 1}", None, "continuous") for k in range(sources))
    return in_memory.from_arrays("conformal_mixture", x.astype(np.float32), s.astype(np.float32), factors,
                                 made_by=("conformal_mixture", VERSION, seed, sources))


register("conformal_mixture", lambda data_dir, seed: make_conformal_mixture(seed),
         suited={"network": "mlp_synthetic", "latents": 2, "steps": 20_000, "likelihood_variance": 0.01,
                 "learning_rate": 3e-3})

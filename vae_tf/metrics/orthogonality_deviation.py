"""The orthogonality deviation of one or several models, from Jacobians or from fitted local decoders (bhowal 4.4)."""

import numpy as np

from vae_tf import arguments
from vae_tf.errors import InputError
from vae_tf.metrics.local_decoder_errors import LocalDecoders
from vae_tf.metrics.orthogonality import align, check_gram, squared_distance
from vae_tf.metrics.registry import NOT_OF_ONE_LATENT, register
from vae_tf.metrics.result import Result


@register(name="od_score_jacobian", needs=("gram",), no_meaning_for=NOT_OF_ONE_LATENT,
          meaning="orthogonality deviation of the Jacobian; 1 or 0 for a single model, see its parts")
def od_score_of_jacobians(gram: np.ndarray) -> Result:
    """`od_score` of one model's Jacobians, from J^T J [N, d, d].

    Raises:
        InputError: gram that is not [N, d, d] or not finite.
    """
    return od_score({"model": gram})["model"]


@register(name="od_score", needs=("local_decoders",), cost="minutes", no_meaning_for=NOT_OF_ONE_LATENT,
          meaning="orthogonality deviation of local decoders; 1 or 0 for a single model, see its parts")
def od_score_of_local_decoders(fits: LocalDecoders) -> Result:
    """`od_score` of one model's fitted local decoders.

    Raises:
        InputError: values that are not finite.
    """
    return od_score({"model": fits.gram})["model"]


@arguments.check
def od_score(grams: dict[str, np.ndarray], active: dict[str, np.ndarray] | None = None) -> dict[str, Result]:
    """Orthogonality deviation of one or several models' M = U S V^T (bhowal 4.4, Table 6, with Lemma 4's reference).

    With the SVD in the order and signs of `align`, there are three distances per x: d_V = ||V - I||_F^2, d_S = sum_j
    (s_j - ||c_j||)^2 and d_U = ||U - M (M^T M)^{-1/2}||_F^2. The last matrix is U V^T, so d_U = ||U (I - V^T)||_F^2 =
    d_V: the two agree for every M, and both are the square of DtO. Each is averaged over x and divided by its maximum
    over the models; the score is the mean of the three, in [0, 1]. It is 0 if the columns are orthogonal, and 1 for the
    model that is farthest from that in every part. A single model therefore scores 1 or 0; its raw distances can be
    compared instead.

    Args:
        grams: {model: M^T M [N, d, d]}, of fitted local decoders or of Jacobians.
        active: {model: bool [d]}, the latents to look at; all by default.

    Returns:
        {model: Result}; parts: d_u, d_sigma, d_v, the raw mean distances.

    Raises:
        InputError: no model, a gram that is not [N, d, d] or not finite, or active that is not [d].
    """
    if not grams:
        raise InputError("grams: expected a dict of at least one model; got none")
    if active is not None and set(active) != set(grams):
        raise InputError(f"active: expected the names of grams, {', '.join(grams)}; got "
                         f"{', '.join(map(str, active)) or 'none'}")
    raw = {}
    for model, gram in grams.items():
        gram, _ = check_gram(gram, None if active is None else active[model])
        svd = align(gram)
        v = squared_distance(svd).mean()
        sigma = ((svd.singular - np.sqrt(np.diagonal(gram, axis1=1, axis2=2))) ** 2).sum(1).mean()
        raw[model] = {"d_u": v, "d_sigma": sigma, "d_v": v}
    largest = {part: max(distances[part] for distances in raw.values()) for part in ("d_u", "d_sigma", "d_v")}
    return {model: Result("od_score", float(np.mean([distances[part] / (largest[part] or 1) for part in largest])),
                          {part: np.array(value) for part, value in distances.items()},
                          "raw d_U {d_u:.3g}, d_S {d_sigma:.3g}, d_V {d_v:.3g}, relative to the largest of "
                          "{0} model(s); 0: orthogonal columns".format(len(grams), **distances))
            for model, distances in raw.items()}

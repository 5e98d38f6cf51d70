"""Which latents a model uses."""


from vae_tf.metrics.result import Result, checked


def active_units(codes, factors=None, threshold=0.01):
    """The number of latents with Var(mu_j) > 0.01 over examples (Burda 2016, section 5.2).

    Args:
        codes: posterior means [N, d].
        factors: not looked at.
        threshold: of the variance, in squared latent units.

    Returns:
        Result; parts: variance [d], active [d].

    Raises:
        ValueError: NaN, or not a matrix.
    """
    codes, _ = checked(codes)
    variance = codes.var(0)
    active = variance > threshold
    return Result("active_units", float(active.sum()), {"variance": variance, "active": active},
                  f"of {len(active)} latents, those whose mean varies (variance > {threshold:g}); "
                  "the rest say nothing about x")

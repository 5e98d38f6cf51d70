"""Split rows into those that a metric learns from and those that it is tested on."""

import numpy as np

from vae_tf.errors import InputError

TEST_SHARE = 1 / 3          # 10,000 rows to learn from, 5,000 to be scored on
FEWEST_ROWS = 10


def split_rows(rows: int, test_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split `rows` rows at random: the indices of the training part, and those of the test part.

    Raises:
        InputError: too few rows to learn anything.
    """
    if rows < FEWEST_ROWS:
        raise InputError(f"codes: expected at least {FEWEST_ROWS} rows, to learn from some and test on the others; "
                         f"got {rows}")
    order = np.random.default_rng(seed).permutation(rows)
    test = round(test_share * rows)
    return order[test:], order[:test]

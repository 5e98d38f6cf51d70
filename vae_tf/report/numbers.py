"""Numbers as people read them."""

import math


def format_share(value: float) -> str:
    """Write a share of a size as per cent, or in two digits where it is above 10."""
    if 10 < value < math.inf:
        return f"{float(f'{value:.2g}'):,.0f} times its size"
    return f"{100 * value:.0f} %"


def format_number(value: float, digits: int = 3) -> str:
    """Write a number with `digits` decimals, or with two significant digits where those would hide it."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2g}" if 0 < abs(value) < 10.0 ** (1 - digits) else f"{value:.{digits}f}"

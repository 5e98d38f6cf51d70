"""Say what was understood of a dataset: its size, its factors, how they cover their grid, and what is surprising."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from vae_tf.data.columns import count_combinations
from vae_tf.data.dataset import FEWEST_TO_SPLIT, Dataset
from vae_tf.data.spreading import spread_evenly
from vae_tf.typing import Array, Integers

LOOKED_AT = 2_000           # examples that are read, spread evenly
CORRELATED = 0.2            # correlation of two factors, from which on it is told
MOST_LISTED = 20
MOST_WRITTEN = 10**15       # numbers from here on are written as powers of ten


def describe_findings(dataset: Dataset, warned: Sequence[str] = ()) -> list[str]:
    """Return lines of text: what the examples and the factors are, and then the surprises.

    Args:
        dataset: a whole dataset; all of its factors and up to 2,000 of its examples are read.
        warned: what was warned of when it was loaded.
    """
    values = dataset.factors_at(np.arange(len(dataset))) if dataset.factors_at else None
    indices = spread_evenly(len(dataset), LOOKED_AT)
    x = dataset.images_at(indices)
    surprises = [*_find_in_examples(dataset, x, indices), *_find_in_factors(dataset, values), *warned]
    return [*_describe_examples(dataset, x), *_describe_factors(dataset, values),
            *(["Surprises:"] if surprises else ["No surprises."]), *(f"  - {line}" for line in surprises)]


def _describe_examples(dataset: Dataset, x: Array) -> list[str]:
    kind = "uint8 images" if dataset.is_image else "float32 vectors"
    lines = [f"{dataset.name}: {len(dataset):,} {kind} of shape {'x'.join(map(str, dataset.shape))}, "
             f"with values from {x.min():g} to {x.max():g} in the {len(x):,} that were looked at"]
    if dataset.parts:
        lines.append("Published parts: " + ", ".join(f"{name} ({len(part):,})" for name, part in dataset.parts.items()))
    if dataset.u_size:
        source = f"of {', '.join(dataset.factors_of_u)}, scaled to [0, 1]" if dataset.u_range is not None else (
            "the data's own")
        lines.append(f"u of an iVAE: {dataset.u_size} number{'s' * (dataset.u_size > 1)}, {source}")
    return lines


def _describe_factors(dataset: Dataset, values: Array | None) -> list[str]:
    if values is None or not dataset.factors:
        return ["Factors: none, so metrics that compare codes with factors are left out"]
    lines = ["Factors:"]
    for factor, column in zip(dataset.factors[:MOST_LISTED], values.T, strict=False):
        known = column[~np.isnan(column)]
        lacking = f"; missing in {len(column) - len(known):,} examples" if factor.incomplete else ""
        span = _describe_counts(known, factor.size) if factor.size else f"from {known.min():g} to {known.max():g}"
        lines.append(f"  {factor.name}: {factor.kind}, {span}{lacking}")
    if len(dataset.factors) > MOST_LISTED:
        lines.append(f"  and {len(dataset.factors) - MOST_LISTED} more")
    return [*lines, _describe_grid(dataset, values)]


def _describe_counts(column: Array, size: int) -> str:
    counts = np.unique(column, return_counts=True)[1]
    low, high = counts.min(), counts.max()
    return f"{len(counts)} of {size} values, each in {low:,}{f' to {high:,}' * bool(high > low)} examples"


def _describe_grid(dataset: Dataset, values: Array) -> str:
    """Return how many of the possible combinations of the factors occur."""
    sizes = [size for size in dataset.factor_sizes if size]
    if len(sizes) < len(dataset.factors):
        return "Grid: none, because some factors are continuous"
    if max(sizes) == 1:
        return "Grid: none, because no factor varies"
    values = values[~np.isnan(values).any(1)].astype(np.int64)
    possible, found = math.prod(sizes), count_combinations(values, sizes) if len(values) else 0
    if found == possible:
        mean = len(values) / possible
        once = "once" if mean == 1 else f"{f'{mean:,.0f}' if mean >= 100 else f'{mean:.3g}'} times on average"
        hint = "; --split=grid holds none out, as is usual for such data" if (
            possible == len(values) == len(dataset) > max(sizes) and dataset.choose_split() != "grid") else ""
        return f"Grid: complete, each of the {possible:,} combinations of values occurs {once}{hint}"
    of = f"{possible:,}" if possible < MOST_WRITTEN else f"some 10^{math.log10(possible):.0f}"
    return (f"Grid: {found:,} of {of} combinations of values occur ({found / possible:.2%}), so factors may "
            "depend on each other")


def _find_in_examples(dataset: Dataset, x: Array, indices: Integers) -> Iterator[str]:
    if len(dataset) < FEWEST_TO_SPLIT:
        yield f"there are fewer than {FEWEST_TO_SPLIT} examples, too few to hold some out; use --split=grid"
    rows = x.reshape(len(x), -1)
    contents = [row.tobytes() for row in rows]
    first = {content: index for index, content in reversed(list(enumerate(contents)))}
    again = [index for index, content in enumerate(contents) if first[content] != index]
    if again:
        yield (f"{len(again):,} of the {len(x):,} examples that were looked at are copies of others: example "
               f"{indices[again[0]]} is that of {indices[first[contents[again[0]]]]}")
    if not dataset.is_image:
        constant = np.flatnonzero(np.ptp(rows, axis=0) == 0)
        if len(constant):
            yield f"{len(constant):,} of {rows.shape[1]:,} entries never vary, such as entry {constant[0]}"
        return
    flat = np.flatnonzero(np.ptp(rows, axis=1) == 0)
    if len(flat):
        yield f"{len(flat):,} images have a single value in all pixels, such as example {indices[flat[0]]}"
    if dataset.shape[2] == 3 and (x == x[..., :1]).all():
        yield "the three colours of every image are equal; one channel would do"
    if rows.max() <= 1:
        yield "no pixel is above 1 of 255, so all images look black"


def _find_in_factors(dataset: Dataset, values: Array | None) -> Iterator[str]:
    if values is None:
        return
    columns = [column[~np.isnan(column)] for column in values.T]
    varying = [k for k, column in enumerate(columns) if (column != column[:1]).any()]
    for k in sorted(set(range(len(dataset.factors))) - set(varying)):
        yield f"factor {dataset.factors[k].name} never varies, so metrics leave it out"
    for k in varying:
        counts = np.unique(columns[k], return_counts=True)[1]
        if dataset.factors[k].size and (counts == 1).any():
            advice = ("if its cells are numbers, write them as 0.5, without units" if dataset.factors[k].kind ==
                      "categorical" else "declare the factor continuous if it is (factor_kinds of an .npz file, which "
                      "`pack` makes)")
            yield (f"{(counts == 1).sum():,} of the {len(counts):,} values of factor {dataset.factors[k].name} occur "
                   f"in a single example; {advice}")
    ordered = [k for k in varying if dataset.factors[k].kind in ("ordinal", "continuous")]
    for j, k in itertools.combinations(ordered[:MOST_LISTED], 2):
        both = values[~np.isnan(values[:, [j, k]]).any(1)][:, [j, k]]
        if (both == both[:1]).all(0).any():
            continue
        correlation = float(np.asarray(np.corrcoef(both.T))[0, 1])      # type: ignore[type-var]
        if abs(correlation) > CORRELATED:
            yield (f"factors {dataset.factors[j].name} and {dataset.factors[k].name} are correlated "
                   f"({correlation:+.2f}), so a latent that follows one of them seems to know the other")

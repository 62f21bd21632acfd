"""TRESBillingWeights, with which a site may weigh what jobs hold. Pure functions."""

import re
from functools import lru_cache

from makeway.adapters.slurm.parse import NOTHING, count, memory_mb

_WEIGHT = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>[KMGTPkmgtp]?)[Bb]?", re.ASCII
)
"""A number as strtod reads it, and a unit, of which Slurm looks at the first letter."""


@lru_cache(maxsize=1 << 10)
def billing_weights(text: str) -> tuple[tuple[str, float], ...] | None:
    """The weights of `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`, that of memory for a megabyte. None: these are none.

    Only the price of some sites needs them, so that no snapshot fails for them.
    """
    found: dict[str, float] = {}
    for part in text.split(",") if text not in NOTHING else ():
        name, _, number = part.partition("=")
        weight = _WEIGHT.fullmatch(number)
        if weight is None:
            return None
        unit = weight["unit"].upper()
        # A unit is that of the amount: 0.25G is a quarter for each gigabyte.
        amount = memory_mb(f"1{unit}") if name.lower() == "mem" and unit else count(f"1{unit}")
        found[name.lower()] = float(weight["number"]) / amount
    return tuple(sorted(found.items()))

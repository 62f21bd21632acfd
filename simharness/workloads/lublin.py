"""A workload out of nothing: the Lublin-Feitelson model of rigid jobs, with users and their estimates.

The model gives sizes, run times that grow with the size, and arrivals with a daily cycle, fitted to logs of
machines of the nineties. It has no users and no requested times; both are added here.

Reference:
    U. Lublin and D. G. Feitelson, The workload on parallel supercomputers: modeling the characteristics of
    rigid jobs, J. Parallel and Distributed Computing 63(11) (2003): the parameters for all jobs together,
    without their types. A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6) (2001): the run time is a uniform
    share of the estimate. D. Tsafrir, Y. Etsion, D. G. Feitelson, JSSPP 2005: estimates are few round values.
"""

from math import exp, lgamma, log, log2

import numpy as np
from numpy.typing import NDArray

from makeway.simharness.workloads.job import SimJob, WorkloadError

_Floats = NDArray[np.float64]

SERIAL_SHARE = 0.244
POWER_OF_TWO_SHARE = 0.576
"""Of all jobs, like `SERIAL_SHARE`."""
_SIZE_LOW = 0.8
"""log2 of the smallest parallel size."""
_SIZE_KNEE = 2.5
"""How far below log2 of the machine the size distribution bends."""
_SIZE_SMALL_SHARE = 0.86
"""Of the parallel jobs: those below the bend."""

_SHORT_SHAPE, _SHORT_SCALE = 4.2, 0.94
_LONG_SHAPE, _LONG_SCALE = 312.0, 0.03
_SHORT_SHARE_SLOPE, _SHORT_SHARE_SERIAL = -0.0054, 0.78
"""Share of short jobs among those of n nodes: slope * n + serial."""
_LOG_RUNTIME_LIMIT = 12.0
"""45 hours."""

_GAP_SHAPE, _GAP_SCALE = 10.2303 * 1.0225, 0.4871
"""Of the logarithm of a gap between arrivals; the factor takes it from rush hours to the whole day."""
_LOG_GAP_LIMIT = 13.0
_DAY_SHAPE, _DAY_SCALE = 8.1737, 3.9631
"""Of the arrivals over a day, in half hours from five in the morning on."""
_SLOT_S, _SLOTS, _FIRST_SLOT = 1800.0, 48, 10

_MINUTES = (5, 10, 15, 20, 30, 45)
_HOURS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 30, 36, 48)
ESTIMATES_S: tuple[float, ...] = (
    *(60.0 * value for value in _MINUTES),
    *(3600.0 * value for value in _HOURS),
)
"""The limits that users ask for."""


def generate(count: int, node_count: int, seed: int, load: float | None = None) -> list[SimJob]:
    """`count` rigid jobs for a machine of `node_count` nodes, sorted by submit time, numbered from 1.

    The load is what the jobs need over what the machine has until the last of them arrives. To reach the
    asked one the gaps are stretched under the daily cycle, which stays a day long. Times are whole seconds
    from a midnight on.

    Args:
        count: number of jobs, from 1.
        node_count: nodes of the machine, from 1.
        seed: of all draws; 0 or more.
        load: the load asked for, above 0. None: what the model gives.

    Raises:
        WorkloadError: an argument out of its range.
    """
    _check(count, node_count, seed, load)
    rng = np.random.default_rng(seed)
    sizes = _sizes(count, node_count, rng)
    runtimes_s = _runtimes_s(sizes, rng)
    gaps = _gaps(count, rng)
    stretch = 1.0 if load is None else _stretch(gaps, float(sizes @ runtimes_s) / (node_count * load))
    submits_s = np.floor(_arrivals_s(gaps * stretch))
    walltimes_s = _estimates_s(runtimes_s, rng)
    users = _users(count, rng)
    return [
        SimJob(
            job_id=str(number),
            submit_s=submit_s,
            runtime_s=runtime_s,
            walltime_s=walltime_s,
            node_count=int(size),
            user=str(user),
            account=str(1 + user % 7),
        )
        for number, (submit_s, runtime_s, walltime_s, size, user) in enumerate(
            zip(
                submits_s.tolist(),
                runtimes_s.tolist(),
                walltimes_s.tolist(),
                sizes.tolist(),
                users,
                strict=True,
            ),
            1,
        )
    ]


def _check(count: int, node_count: int, seed: int, load: float | None) -> None:
    for key, value, low in (("count", count, 1), ("node_count", node_count, 1), ("seed", seed, 0)):
        if value < low:
            raise WorkloadError(f"{key}: {value}; accepted: a whole number from {low}")
    if load is not None and not 1e-3 <= load <= 100:
        raise WorkloadError(f"load: {load}; accepted: a number from 0.001 to 100")


def _sizes(count: int, node_count: int, rng: np.random.Generator) -> _Floats:
    """Numbers of nodes: 1, a power of two, or any.

    Their log2 is uniform in two stages, with the bend near a sixth of the machine.
    """
    kind = rng.random(count)
    small = rng.random(count) <= _SIZE_SMALL_SHARE
    place = rng.random(count)
    if node_count == 1:
        return np.ones(count)
    high = log2(node_count)
    low = min(_SIZE_LOW, high)
    bend = max(high - _SIZE_KNEE, (low + high) / 2 if high - _SIZE_KNEE < low else low)
    exponent = np.where(small, low + place * (bend - low), bend + place * (high - bend))
    power = kind <= SERIAL_SHARE + POWER_OF_TWO_SHARE
    exponent = np.where(power, np.floor(exponent + 0.5), exponent)
    sizes: _Floats = np.minimum(np.floor(2**exponent + 0.5), node_count)
    sizes[kind <= SERIAL_SHARE] = 1.0
    return sizes


def _runtimes_s(sizes: _Floats, rng: np.random.Generator) -> _Floats:
    """The logarithm is one of two gammas; the larger the job, the likelier the longer one."""
    short_share = np.clip(_SHORT_SHARE_SLOPE * sizes + _SHORT_SHARE_SERIAL, 0.0, 1.0)
    logs = np.full(len(sizes), np.inf)
    while (redo := np.flatnonzero(logs > _LOG_RUNTIME_LIMIT)).size:
        short = rng.gamma(_SHORT_SHAPE, _SHORT_SCALE, redo.size)
        long = rng.gamma(_LONG_SHAPE, _LONG_SCALE, redo.size)
        logs[redo] = np.where(rng.random(redo.size) <= short_share[redo], short, long)
    runtimes_s: _Floats = np.maximum(np.floor(np.exp(logs)), 1.0)
    return runtimes_s


def _gaps(count: int, rng: np.random.Generator) -> _Floats:
    """Gaps between arrivals in seconds, were all hours alike."""
    logs = np.full(count, np.inf)
    while (redo := np.flatnonzero(logs > _LOG_GAP_LIMIT)).size:
        logs[redo] = rng.gamma(_GAP_SHAPE, _GAP_SCALE, redo.size)
    gaps: _Floats = np.exp(logs)
    return gaps


def _arrivals_s(gaps: _Floats) -> _Floats:
    """Arrivals at the rate of the daily cycle.

    Time passes by the cycle's weight, which is 1 on average over a day.
    """
    elapsed = np.cumsum(gaps)
    weights = _weights()
    passed = np.concatenate(([0.0], np.cumsum(weights))) * _SLOT_S
    day_s = _SLOTS * _SLOT_S
    days = np.floor(elapsed / day_s)
    in_day: _Floats = np.interp(elapsed - days * day_s, passed, np.arange(_SLOTS + 1) * _SLOT_S)
    in_day += days * day_s
    return in_day


def _weights() -> _Floats:
    """The arrivals of each half hour of the day, from midnight on, over those of a mean one."""
    edges = np.array(
        [_gamma_cdf((i + 0.5) / _DAY_SCALE, _DAY_SHAPE) for i in range(_FIRST_SLOT, _FIRST_SLOT + _SLOTS + 1)]
    )
    weights: _Floats = np.roll(np.diff(edges), _FIRST_SLOT)
    return weights * float(_SLOTS / weights.sum())


def _gamma_cdf(x: float, shape: float) -> float:
    """The distribution function of a gamma of scale 1, for x up to a few times `shape`.

    Computed by its power series.
    """
    term = total = 1.0 / shape
    divisor = shape
    while term > total * 1e-15:
        divisor += 1
        term *= x / divisor
        total += term
    return total * exp(shape * log(x) - x - lgamma(shape))


def _stretch(gaps: _Floats, span_s: float) -> float:
    """The factor on the gaps for which the last job arrives at `span_s`, by bisection."""
    low, high = 0.0, 4 * span_s / float(gaps.sum()) + 4 * 86_400.0 / float(gaps.sum())
    for _ in range(60):
        middle = (low + high) / 2
        if _arrivals_s(gaps * middle)[-1] < span_s:
            low = middle
        else:
            high = middle
    return high


def _estimates_s(runtimes_s: _Floats, rng: np.random.Generator) -> _Floats:
    """What users ask for: the run time over a uniform accuracy, rounded up to a value of `ESTIMATES_S`."""
    values = np.array(ESTIMATES_S)
    accuracy = 1.0 - rng.random(len(runtimes_s))
    places = np.searchsorted(values, runtimes_s / accuracy)
    return values[np.minimum(places, len(values) - 1)]


def _users(count: int, rng: np.random.Generator) -> list[int]:
    """A user for each job, from 1: the k-th most active has a share of 1/k; one user for every 25 jobs."""
    weights = 1.0 / np.arange(1, max(count // 25, min(count, 10)) + 1)
    return [int(user) for user in 1 + rng.choice(len(weights), count, p=weights / weights.sum())]

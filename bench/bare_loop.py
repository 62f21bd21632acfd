"""A scheduler that does nothing else: reads an SWF file, replays it under FCFS and EASY, and prints the mean
wait. With `--twice` it replays it twice.

Only what any such script needs: the standard library, no checks, no records. `bench_replay.py` compares
`makeway replay` with it.
"""

import gzip
import heapq
import sys
from bisect import insort
from itertools import groupby

Job = tuple[int, int, int, int]
"""When it is submitted, how long it runs, its time limit, and how many nodes it needs."""


def read(path: str) -> tuple[int, list[Job]]:
    """The nodes of the machine and its jobs, in the order of submission."""
    nodes, jobs = 0, list[Job]()
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.startswith("; MaxProcs:"):
                nodes = int(line.split()[2])
            elif not line.startswith(";"):
                field = [int(part) for part in line.split()]
                run_s, size = field[3], max(field[4], field[7])
                if run_s > 0 and size > 0:
                    jobs.append((field[1], run_s, max(field[8], run_s), size))
    return nodes, jobs


def waits(nodes: int, jobs: list[Job]) -> list[int]:
    """How long each job waits, in the order of submission."""
    free = nodes
    ends, limits = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    queue, found = list[int](), [0] * len(jobs)
    arrivals = iter([(at_s, [one for one, _ in group]) for at_s, group in groupby(enumerate(jobs), _submit)])
    coming = next(arrivals, None)
    while coming is not None or ends:
        now_s = min(ends[0][0] if ends else sys.maxsize, coming[0] if coming else sys.maxsize)
        while ends and ends[0][0] == now_s:
            _, number, size = heapq.heappop(ends)
            free += size
            limits.remove((jobs[number][0] + found[number] + jobs[number][2], number, size))
        if coming is not None and coming[0] == now_s:
            queue += coming[1]
            coming = next(arrivals, None)
        shadow_s, spare, waiting = -1, 0, list[int]()  # -1: the first job that does not fit is yet to come
        for place, number in enumerate(queue):
            submit_s, run_s, limit_s, size = jobs[number]
            if shadow_s >= 0 and not free:
                waiting += queue[place:]
                break
            if size <= free and (shadow_s < 0 or now_s + limit_s <= shadow_s or size <= spare):
                if shadow_s >= 0 and now_s + limit_s > shadow_s:
                    spare -= size
                free -= size
                found[number] = now_s - submit_s
                heapq.heappush(ends, (now_s + run_s, number, size))
                insort(limits, (now_s + limit_s, number, size))
                continue
            waiting.append(number)
            if shadow_s < 0:
                shadow_s, spare = _shadow(limits, free, size)
        queue = waiting
    return found


def _submit(numbered: tuple[int, Job]) -> int:
    return numbered[1][0]


def _shadow(limits: list[tuple[int, int, int]], free: int, size: int) -> tuple[int, int]:
    """When the first job of the queue starts at the latest, and how many nodes are left then."""
    for place, (end_s, _, freed) in enumerate(limits):
        free += freed
        if free >= size and (place + 1 == len(limits) or limits[place + 1][0] > end_s):
            return end_s, free - size
    return sys.maxsize, free - size


def main() -> None:
    """Replay the trace that the command line names."""
    nodes, jobs = read(sys.argv[1])
    for _ in range(2 if "--twice" in sys.argv else 1):
        found = waits(nodes, jobs)
    print(sum(found) / len(found))


if __name__ == "__main__":
    main()

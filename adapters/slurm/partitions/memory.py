"""How much memory a partition, or the cluster, gives to a job that asks for none. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefault:
    """How much memory a job gets that asks for none."""

    per_cpu: bool
    """Whether it is for each CPU. False: for each node."""
    amount_mb: float


def default_memory(per_node: str, per_cpu: str) -> MemoryDefault | None:
    """What DefMemPerNode and DefMemPerCPU say. None: neither is set; 0 is Slurm's word for that too."""
    for text, by_cpu in ((per_cpu, True), (per_node, False)):
        if text.isascii() and text.isdigit() and int(text):
            return MemoryDefault(per_cpu=by_cpu, amount_mb=float(text))
    return None

"""What `makeway doctor` says of nodes that jobs share, and of what counts of them."""

from makeway.adapters.site.checks import Check, ok, warning
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.parse_cluster import job_defaults
from makeway.adapters.slurm.resources.counting import counting, shared_partitions
from makeway.adapters.slurm.settings import Price
from makeway.adapters.slurm.survey import Survey


def check_sharing(survey: Survey, price: Price) -> list[Check]:
    """Whether jobs share nodes, and what of a node counts then."""
    counts = counting(survey.settings)
    shared = sorted(shared_partitions(survey.layout, counts))
    if not counts.shares or not shared:
        why = printable(survey.settings.get("SelectType", "an unknown SelectType"))
        why = "every partition is exclusive" if counts.shares else why
        why = "jobs with different MCS labels share no node" if counts.by_label else why
        return [ok("sharing", f"jobs get whole nodes: {why}"), *_check_oversubscription(survey, "node")]
    gres = survey.settings.get("GresTypes", "").removeprefix("(null)")
    what = ("CPUs" if counts.cpus else "", "memory" if counts.memory else "", printable(gres))
    counted_by = ", ".join(part for part in what if part) or "nothing"
    checks = [ok("sharing", f"jobs share the nodes of {', '.join(shared)}; what counts: {counted_by}")]
    said = printable(survey.settings.get("SelectTypeParameters", ""))
    if not counts.memory:
        text = (
            f"jobs share nodes without counting memory (SelectTypeParameters={said}): an urgent job may get "
            "a node with too little of it; CR_Core_Memory counts it"
        )
        checks.append(warning("memory", text))
    elif without := _without_default_memory(survey):
        text = (
            f"a job in {', '.join(without)} that does not ask for memory gets all of its nodes' and shares "
            "none: set DefMemPerCPU"
        )
        checks.append(warning("memory", text))
    checks += _check_oversubscription(survey, "CPU")
    if price is Price.BILLING_WEIGHTS and not any(one.weights for one in survey.layout):
        text = "price: billing_weights, but no partition has TRESBillingWeights: the dominant share counts"
        checks.append(warning("price", text))
    return checks


def _check_oversubscription(survey: Survey, unit: str) -> list[Check]:
    """Whether a partition gives the same `unit` to several jobs."""
    over = sorted(one.name for one in survey.layout if one.oversubscribed and not one.exclusive)
    if not over:
        return []
    text = (
        f"partition {', '.join(over)} may give a {unit} to several jobs at once (OverSubscribe): makeway "
        f"counts each {unit} once, and may make more room than an urgent job needs"
    )
    return [warning("oversubscription", text)]


def _without_default_memory(survey: Survey) -> list[str]:
    """The partitions that share nodes and in which a job without GPUs has no default of memory."""
    defaults = job_defaults(survey.settings)
    shared = (one for one in survey.layout if not one.exclusive)
    return sorted(one.name for one in shared if defaults.in_partition(one).memory is None)

"""What `makeway doctor` says of the lease: whether Slurm would refuse its reservation."""

from makeway.adapters.site.checks import Check, problem
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.entitlement.reader import enforced
from makeway.adapters.slurm.survey import Survey


def check_lease(survey: Survey, *, acts: bool) -> Check | None:
    """Whether Slurm takes the users of a lease. None: it does, or that is unknown, or none is wanted."""
    if not acts or survey.associated is None or "associations" not in enforced(survey.settings):
        return None
    if not survey.associated.isdisjoint({0, survey.user_id}):
        return None
    user = printable(survey.user)
    return problem(
        "lease",
        f"Slurm would refuse the lease, without which makeway does not act: neither root nor {user} has an "
        "account on this cluster, and AccountingStorageEnforce asks for one: sacctmgr add user root "
        "account=root",
    )

"""Whether Slurm knows the names that settings have, such as those of protected accounts."""

from makeway.adapters.site.checks import Check, SettingNames, unknown_names
from makeway.adapters.slurm.survey import Survey


def check_setting_names(survey: Survey, names: SettingNames) -> list[Check]:
    """A warning for each sort of names of which there are some that no job ever has."""
    checks = unknown_names("partition", frozenset(survey.partitions), names.partitions, "names")
    checks += unknown_names("user", survey.users, names.users, "names")
    if survey.has_accounting:
        checks += unknown_names("QOS", survey.qos, names.qos, "names")
        checks += unknown_names("account", survey.accounts, names.accounts, "names")
    return checks

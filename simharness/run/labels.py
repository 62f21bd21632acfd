"""What policies are called in the results of replays."""

from collections.abc import Iterable
from pathlib import Path

from makeway.daemon.config.policy_finder import SUFFIX
from makeway.policies.registry import POLICIES


def policy_labels(policies: Iterable[str]) -> dict[str, str]:
    """What each policy is called, by what names it.

    A file of a policy is called as the file without its folder and its ending. If that is the name of another
    one, or of a policy of makeway, as many of its folders are added as it takes to tell them apart.
    """
    names = tuple(dict.fromkeys(policies))
    files = {name: Path(name).with_suffix("").parts for name in names if name.endswith(SUFFIX)}
    taken = {name for name in names if name not in files} | POLICIES.keys()
    return {name: _label(name, files, taken) if name in files else name for name in names}


def _label(name: str, files: dict[str, tuple[str, ...]], taken: set[str]) -> str:
    """The shortest end of a file's path that no other file, and no policy, has; else the path."""
    others = [parts for other, parts in files.items() if other != name]
    for depth in range(1, len(files[name]) + 1):
        end = files[name][-depth:]
        if "/".join(end) not in taken and all(parts[-depth:] != end for parts in others):
            return "/".join(end)
    return name

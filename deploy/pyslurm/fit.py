"""Fits the unpacked sources of pyslurm 25.11.2 to Slurm 24.11, for which the index has no pyslurm.

Usage: fit.py FOLDER. For tests only: a site installs pyslurm of its own release. Attributes for which 24.11
has no field are None, or 0 where pyslurm counts with them. `compat-24.11.h` does the rest.
"""

import re
import sys
from pathlib import Path

VERSION = ("version.py", r'"25\.11\.', '"24.11.')
LACKS = {
    "core/job/job.pyx": {"licenses_allocated": "None", "submit_line": "None", "segment_size": "None"},
    "core/job/step.pyx": dict.fromkeys(("std_in", "std_out", "std_err", "cwd", "tres_fmt_alloc_str"), "None"),
    "core/node.pyx": {"alloc_memory": "0", "alloc_cpus": "0", "alloc_tres_fmt_str": "{}"},
    "core/slurmctld/config.pyx": dict.fromkeys(
        ("epilog_timeout", "prolog_timeout", "namespace_plugin", "metrics_type"), "None"
    ),
    "db/job.pyx": {"segment_size": "None", "resv_req": "None"},
    "db/step.pyx": dict.fromkeys(("cwd", "std_in", "std_out", "std_err", "timelimit"), "None"),
}
"""The fields that 24.11 does not have, by file, and what pyslurm returns instead."""
STEP_IDS = (
    ("core/job/submission.pyx", r"resp\.step_id\.job_id", "resp.job_id"),
    ("core/job/submission.pyx", r"ptr\.segment_size = [^\n]*", "pass"),
    ("core/job/job.pyx", r"changes\.ptr\.step_id\.job_id", "changes.ptr.job_id"),
    ("core/job/step.pyx", r"js\.umsg\.step_id = self\.ptr\.step_id", "raise NotImplementedError"),
)
"""Where 25.11 has the number of a job in a record of its step."""
STRUCTS = ("struct submit_response_msg:", "struct job_descriptor:")
"""The declarations of these records begin with it."""


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Replace a pattern everywhere in a file. Fails if it is not there."""
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
    if not count:
        sys.exit(f"fit.py: {path}: there is no {pattern}: these are not the sources of pyslurm 25.11.2")
    path.write_text(text, encoding="utf-8")


def main() -> None:
    package = Path(sys.argv[1]) / "pyslurm"
    for name, pattern, replacement in (VERSION, *STEP_IDS):
        edit(package / name, pattern, replacement)
    for name, fields in LACKS.items():
        for field, instead in fields.items():
            edit(package / name, rf"return [^\n]*self\.(?:ptr|info)\.{field}\b[^\n]*", f"return {instead}")
    for struct in STRUCTS:
        # The first declaration of it after the beginning of the record.
        edit(
            package / "slurm" / "slurm.h.pxi",
            rf"(?s)({re.escape(struct)}(?:(?!slurm_step_id_t step_id|\n    \w).)*?)slurm_step_id_t step_id",
            r"\1uint32_t job_id",
        )


if __name__ == "__main__":
    main()

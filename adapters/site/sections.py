"""What the sections of a configuration are made of. Each description completes the sentence "accepted: ..."
of an error.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, ValidationInfo

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What the check of a section knows besides its text."""

    folder: Path
    """The folder of the configuration file."""


def below_folder(path: Path, info: ValidationInfo) -> Path:
    """Relative paths start at the folder of the configuration file, wherever the daemon was started."""
    text = str(path)
    if not text.isprintable() or text.startswith("~") or text in {"", "."}:
        raise ValueError(f"a path of a file is expected, without ~ and control characters, not {text!r}")
    context: object = info.context
    folder = context.folder if isinstance(context, LoadContext) else Path()
    return folder.absolute() / path


FilePath = Annotated[Path, AfterValidator(below_folder)]
Names = Annotated[frozenset[str], PlainSerializer(sorted)]


class Section(BaseModel):
    """A mapping of settings: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class AdapterSection(Section):
    """The section `adapter`. Each adapter derives its own, with a field `type` that accepts the adapter's
    name alone.
    """

    @property
    def adapter_name(self) -> str:
        """The name of the adapter that the section is for."""
        (name,) = get_args(type(self).model_fields["type"].annotation)
        return str(name)

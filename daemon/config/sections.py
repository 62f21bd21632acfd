"""What the sections of a configuration are made of."""

from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
)

DAY_S = 86_400.0
_PLAIN: Final = {"bool", "float", "int", "str"}
"""What pydantic calls the branches of a union of plain values, beside `literal[...]`."""
_WANTS: Final = "Input should be "


def below_folder(path: Path, info: ValidationInfo) -> Path:
    """Relative paths start at the folder of the configuration file, wherever the daemon was started."""
    text = str(path)
    if not text.isprintable() or text.startswith("~") or text in {"", "."}:
        raise ValueError("a path of a file is expected, without ~ and control characters")
    folder: Path = (info.context or {}).get("folder", Path())
    return folder.absolute() / path


FilePath = Annotated[Path, AfterValidator(below_folder)]
Names = Annotated[frozenset[str], PlainSerializer(sorted)]


class Section(BaseModel):
    """A mapping of settings: unknown keys are refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Complaint(NamedTuple):
    """What is wrong with one value."""

    location: tuple[int | str, ...]
    message: str
    value: Any


def complaints(error: ValidationError) -> list[Complaint]:
    """What pydantic found, once for each value: of a union of plain values it tells every branch by itself."""
    found: dict[tuple[int | str, ...], Complaint] = {}
    for entry in error.errors():
        location = entry["loc"]
        if location and (location[-1] in _PLAIN or str(location[-1]).startswith("literal[")):
            location = location[:-1]
        told = found.get(location)
        message = entry["msg"] if told is None else f"{told.message} or {entry['msg'].removeprefix(_WANTS)}"
        found[location] = Complaint(location, message, entry["input"])
    return list(found.values())

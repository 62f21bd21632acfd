from pathlib import Path
from typing import BinaryIO

from pyarrow import Table

def write_table(table: Table, where: Path | BinaryIO) -> None: ...
def read_table(source: Path) -> Table: ...

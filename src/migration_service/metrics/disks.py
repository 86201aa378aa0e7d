"""The disks of this machine to which the service or its embedded servers write."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

#: The free share below which a disk is nearly full, as in `monitoring/alerts.yml`.
_LOW = 0.1


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a folder, and its purpose: `data` or `uploads`."""

    kept: str
    folder: Path
    free: int
    size: int

    @property
    def is_nearly_full(self) -> bool:
        """Whether an operator should free space now."""
        return self.free < self.size * _LOW

    @property
    def room(self) -> str:
        """The free space, for people."""
        return f"{self.free / 1e9:.1f} of {self.size / 1e9:.1f} GB free"


def read_disks(home: Path, upload_folder: str) -> list[Disk]:
    """Return the disks of the home folder, which has the data of embedded servers, and of the uploads.

    Without `upload_folder`, uploads are in the folder for temporary files. A home folder that does not exist
    is left out, because the data is then on other machines.
    """
    folders = {"data": home, "uploads": Path(upload_folder or gettempdir())}
    found = []
    for kept, folder in folders.items():
        if folder.exists():
            usage = shutil.disk_usage(folder)
            found.append(Disk(kept, folder, usage.free, usage.total))
    return found

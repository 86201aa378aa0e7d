"""The disks of this machine that the service or its embedded servers write to."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

#: From this free share on a disk is nearly full. `monitoring/alerts.yml` says the same.
_LOW = 0.1


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a folder, and what is kept there: `data` or `uploads`."""

    kept: str
    folder: Path
    free: int
    size: int

    @property
    def is_nearly_full(self) -> bool:
        """Whether somebody should make room now."""
        return self.free < self.size * _LOW

    @property
    def room(self) -> str:
        """The free space, for people."""
        return f"{self.free / 1e9:.1f} of {self.size / 1e9:.1f} GB free"


def read_disks(home: Path, upload_folder: str) -> list[Disk]:
    """Return the disk of the home folder, where embedded servers keep their data, and that of the uploads.

    Without an `upload_folder` these are kept in the folder for temporary files. A home folder that does not
    exist is left out: then everything is kept on other machines.
    """
    folders = {"data": home, "uploads": Path(upload_folder or gettempdir())}
    found = []
    for kept, folder in folders.items():
        if folder.exists():
            usage = shutil.disk_usage(folder)
            found.append(Disk(kept, folder, usage.free, usage.total))
    return found

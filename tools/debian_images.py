"""Makes images of Debian's packages, for a machine whose container engine can get no others.

`make compose-check` and `make kubernetes-containers` use them with ARGS=--debian, as `make night` does. It
needs root, and Debian's debootstrap, as `make install-check` does, whose Debian they are made of.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from checks import ROOT, docker
from install_check import DEBIAN, make_debian

_NAME = "migration-service-check"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP = Path("/etc/pip.conf")


def make_images() -> dict[str, str]:
    """Make the images. Return their names by the variables of docker-compose.yml."""
    make_debian()
    with subprocess.Popen(["tar", "-C", str(DEBIAN), "-c", "."], stdout=subprocess.PIPE) as archive:
        imported = ["docker", "import", "-", f"{_NAME}/debian"]
        subprocess.run(imported, stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)
    names = {}
    with tempfile.TemporaryDirectory() as temporary:
        context = Path(temporary) / "context"
        shutil.copytree(ROOT / "tools/debian_images", context)
        shutil.copy(_CERTIFICATES, context)
        (context / "pip.conf").write_text(_PIP.read_text() if _PIP.exists() else "")
        for target in ("python", "postgres", "valkey", "nginx"):
            name = names[f"{target.upper()}_IMAGE"] = f"{_NAME}/{target}"
            docker("build", "--quiet", "--target", target, "--tag", name, str(context))
    return names

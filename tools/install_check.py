"""Installs the service on a Debian with systemd by docs/operators/install.md and backup.md, block by block.

    python tools/install_check.py            makes a Debian below build/install, or uses the one that is there
    python tools/install_check.py --keep     leaves it running, and says how to enter it

It boots a Debian in systemd-nspawn, which needs root, and Debian's packages `debootstrap` and
`systemd-container`. Every block of the two pages that says so is run as it stands, in a shell that ends at
the first error. What the pages leave to the reader is in `_READER`: the roles of the servers, the secrets and
a certificate. Then the service has to answer through nginx, survive a reload without a failed request, and
come back from its backup.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checks import ROOT, CheckError, exit_with, run, runbook_commands, say

from documentation.shell import blocks

WORK = ROOT / "build/install"
DEBIAN = WORK / "root"
_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "postgresql", "redis-server", "sudo"),
    *("curl", "openssl", "ca-certificates", "iproute2", "procps", "nginx"),
)
_ASK = "curl -sf --max-time 10 --cacert /etc/nginx/migration-service.pem https://localhost/health/ready"

#: What a reader does before the block with this number of a page, because the page says it in prose.
_READER = {
    ("install.md", 0): """
        sed -i 's/^appendonly no/appendonly yes/' /etc/redis/redis.conf
        echo 'maxmemory-policy noeviction' >> /etc/redis/redis.conf
        systemctl restart redis-server
        echo 127.0.0.1 "$(hostname)" >> /etc/hosts
        sudo -u postgres psql -qc "CREATE ROLE migration_owner LOGIN PASSWORD 'o'" \
            -c "CREATE ROLE migration_service LOGIN PASSWORD 's'" \
            -c "CREATE DATABASE migration OWNER migration_owner"
    """,
    ("install.md", 2): """
        cd /etc/migration-service/secrets
        echo postgresql://migration_service:s@127.0.0.1:5432/migration > DATABASE_URL
        echo redis://127.0.0.1:6379/0 > REDIS_URL
        python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > MIGRATION_SERVICE_SECRET_KEY
        echo flower > FLOWER_PASSWORD
        echo let-me-in > MIGRATION_SERVICE_METRICS_TOKEN
        echo postgresql://migration_owner:o@127.0.0.1:5432/migration > /root/owner-url
        printf '%s\\n' 'MIGRATION_SERVICE_EMAIL_FROM=Migration <migration@sample-energy.example>' \
            'MIGRATION_SERVICE_ALLOWED_HOSTS=localhost' >> /etc/migration-service/environment
    """,
    ("install.md", 3): """
        mkdir -p /etc/nginx
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
            -addext subjectAltName=DNS:localhost \
            -keyout /etc/nginx/migration-service.key -out /etc/nginx/migration-service.pem 2> /dev/null
    """,
    ("backup.md", 0): """
        PASSWORD=b
        echo 127.0.0.1 db.example >> /etc/hosts
        sudo -u postgres psql -qc "CREATE ROLE backup LOGIN REPLICATION PASSWORD 'b'"
    """,
    (
        "backup.md",
        1,
    ): "systemctl stop 'migration-service-*'; mv /backup/base-$(date +%F) /backup/base-2026-01-31",
}


def make_debian() -> None:
    """Make a Debian in `DEBIAN`, with the sources of this machine, unless it is there."""
    if (DEBIAN / "etc/debian_version").exists():
        return
    targets = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)").stdout.split("\n")
    release = re.findall(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.MULTILINE)[0]
    site = next(line.split()[0] for line in targets if line.split()[1:] == [release])
    WORK.mkdir(parents=True, exist_ok=True)
    say(f"debootstrap {release}, some minutes")
    run("debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", release, str(DEBIAN), site)


class Host:
    """A booted Debian with a copy of `DEBIAN`, which its end throws away."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a script as root of the host. Return its output. Raise CheckError if it fails."""
        return run(
            *("nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-n", "-p", "-r", "-w"),
            *("bash", "-euo", "pipefail", "-c", f"cd\n{script}"),
            check=check,
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "LANG": "C.UTF-8",
                "DEBIAN_FRONTEND": "noninteractive",
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": "/wheels",
            },
            timeout=900,
        ).stdout

    def wait(self, script: str, seconds: float) -> None:
        """Wait until a script ends with 0. Raise CheckError if it does not within `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.run(f"if {script}; then echo yes; fi", check=False).strip().endswith("yes"):
                return
            time.sleep(1)
        raise CheckError(f"not so after {seconds:g} s: {script}")


@contextmanager
def booted() -> Iterator[Host]:
    """Boot a copy of the Debian with its own network of loopback, and end it."""
    wheels = WORK / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    say("download the locked packages")
    # Those for an older Python than this one, too: it is the Debian's that installs them.
    locked = WORK / "requirements.lock"
    lines = (ROOT / "requirements.lock").read_text()
    locked.write_text(re.sub(r" ; python_full_version < [^\\\n]*", " ", lines))
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"),
        *("--dest", str(wheels), "--requirement", str(locked)),
    )
    command = [
        *("systemd-nspawn", f"--directory={DEBIAN}", "--ephemeral", "--boot", "--register=no", "--keep-unit"),
        *("--private-network", "--machine=install-check", f"--bind-ro={wheels}:/wheels"),
    ]
    with (WORK / "console.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Host(_leader(process))
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _leader(process: "subprocess.Popen[bytes]") -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(600):
        found = children.read_text().split() if process.poll() is None else []
        for child in found:
            state = Host(int(child)).run("systemctl is-system-running", check=False)
            if "running" in state or "degraded" in state:
                return int(child)
        time.sleep(1)
    raise CheckError(f"The Debian does not boot: {WORK / 'console.log'}")


def carry_out(host: Host, page: str) -> None:
    """Run the blocks of a page in their order."""
    found = [it.text for it in blocks(ROOT / "docs/operators" / page) if "make install-check" in it.elsewhere]
    if not found:
        raise CheckError(f"{page} has no block for this check.")
    for number, block in enumerate(found):
        say(f"{page}, block {number + 1}: {block.strip().splitlines()[0]}")
        host.run(_READER.get((page, number), "") + "\n" + block)


def failed_during(host: Host, act: str) -> tuple[int, int]:
    """Send requests through nginx while `act` runs. Return how many were sent, and how many failed."""
    said = host.run(f"""
        ({act}) & running=$!
        sent=0 failed=0
        while kill -0 $running 2> /dev/null; do
            sent=$((sent + 1))
            {_ASK.replace("health/ready", "health/live")} > /dev/null || failed=$((failed + 1))
        done
        wait $running
        echo $sent $failed
    """)
    sent, failed = map(int, said.split())
    return sent, failed


def try_runbooks(host: Host) -> None:
    """Run what the runbooks say for hosts: as root, as `postgres`, and with the role of the service."""
    page = (ROOT / "docs/operators/runbooks.md").read_text()
    commands = runbook_commands(column=1)
    commands += re.findall("`(sudo -u postgres psql [^`]+)`", page)
    commands += re.findall(r'^psql "\$DATABASE_URL".*', page, re.MULTILINE)
    another = "(SELECT max(pid) FROM pg_stat_activity WHERE usename = 'migration_service')"
    for command in commands:
        say(f"runbooks: {command}")
        exact = (
            command.replace("UNIT", "migration-service-beat")
            .replace("QUEUE", "batch")
            .replace("PID", another)
        )
        # 3 says that a unit is not running, as the backup between two nights.
        host.run(f"DATABASE_URL=$(cat /etc/migration-service/secrets/DATABASE_URL)\n{exact} || [ $? -eq 3 ]")
    if len(commands) < 12:
        raise CheckError("The runbooks have fewer commands than they had.")
    host.wait("migration-service doctor", 60)


def check(host: Host) -> None:
    """Install, use, upgrade, back up and restore. Raise CheckError if something is not as the pages say."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    (WORK / "wheels/migration-service.tar").write_bytes(archive)
    host.run("cp /wheels/migration-service.tar /root/")
    carry_out(host, "install.md")
    host.wait(_ASK, 60)
    say(host.run(_ASK))
    host.run("migration-service doctor")
    host.run(
        "migration-service organisations create Check; migration-service teams create Team; "
        "migration-service suppliers create CHECK --organisation Check"
    )
    sent, failed = failed_during(host, "systemctl reload migration-service-web; sleep 8")
    say(f"systemctl reload: {failed} of {sent} requests failed")
    if failed:
        raise CheckError("A reload fails requests.")
    before = time.monotonic()
    host.run("systemctl stop 'migration-service-*'")
    left = host.run("pgrep -fc '[m]igration_service.web|[c]elery_worker' || true").strip()
    say(f"stop: {time.monotonic() - before:.0f} s, {left} processes left")
    if left != "0":
        raise CheckError("`systemctl stop` returns before everything has ended.")
    host.run("systemctl start migration-service.target")
    host.wait(_ASK, 60)
    try_runbooks(host)
    carry_out(host, "backup.md")
    host.wait("sudo -u postgres psql -XAtqc 'SELECT NOT pg_is_in_recovery()' | grep -q t", 60)
    host.run("systemctl start migration-service.target")
    host.wait(_ASK, 60)
    if "CHECK" not in host.run("migration-service suppliers list"):
        raise CheckError("The restored database has no supplier CHECK.")
    host.run("migration-service doctor && migration-service audit verify")


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="wait for Enter before the Debian is thrown away")
    arguments = parser.parse_args()
    make_debian()
    with booted() as host:
        try:
            check(host)
        finally:
            if arguments.keep:
                input(f"nsenter -t {host._leader} -a bash     Enter ends it.")


if __name__ == "__main__":
    exit_with(main)

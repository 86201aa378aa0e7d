"""The units of deployment/systemd: their commands, queues, times and secrets agree with the service's own."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from migration_service.tasks.names import QUEUES
from support.deployment_files import ROOT, SECRET_SETTINGS, options, seconds_of_web, seconds_of_workers

FOLDER = ROOT / "deployment/systemd"
INSTALLED = "/opt/migration-service/current"
# Those for backups start PostgreSQL's own programs.
BACKUPS = {"migration-service-backup.service", "migration-service-wal.service"}
UNITS = sorted(it for it in FOLDER.glob("*.service") if it.name not in BACKUPS)


def read(unit: Path) -> dict[str, list[str]]:
    """Return every setting of a unit with its values."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def seconds(unit: str) -> int:
    return int(read(FOLDER / unit)["TimeoutStopSec"][0])


def test_each_unit_says_how_much_it_may_hold() -> None:
    """Memory, threads and files: 1,024 of those are not enough for connections of clients and receivers."""
    for unit in UNITS:
        bounds = read(unit)
        assert bounds.keys() >= {"MemoryMax", "TasksMax", "LimitNOFILE"}, unit.name
        assert int(bounds["LimitNOFILE"][0]) > 2 * int(bounds["TasksMax"][0]), unit.name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for source in FOLDER.iterdir():
        target = tmp_path / source.name
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.suffix in {".service", ".target", ".timer"}:
            programs = source.read_text().replace(f"{INSTALLED}/.venv/bin", str(Path(sys.executable).parent))
            for other in ("/usr/local/sbin/migration-service", "/usr/bin/pg_receivewal"):
                programs = programs.replace(other, "/bin/true")  # what the host installs
            target.write_text(programs)
    names = [unit.name.replace("@.", f"@{queue}.") for unit in UNITS for queue in QUEUES]
    names += [*BACKUPS, "migration-service-backup.timer"]
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(set(names)), "migration-service.target"],
        cwd=tmp_path,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in checked.stderr.splitlines() if "migration-service" in line]
    assert (checked.returncode, about_us) == (0, [])


def test_a_unit_has_longer_to_end_than_its_process_takes() -> None:
    assert seconds("migration-service-web.service") > seconds_of_web() + 5
    assert seconds("migration-service-worker@.service") > seconds_of_workers() + 5


def test_every_process_is_one_that_exists_in_the_project() -> None:
    for unit in UNITS:
        (command,) = read(unit)["ExecStart"]
        (app,) = re.findall(r"(?:-A|-m) (\S+)", command)
        path = f"{app.replace('.', '/')}.py"
        assert (ROOT / path).exists() or (ROOT / "src" / path).exists(), unit.name


def test_a_worker_takes_the_queue_that_its_name_says_and_the_page_starts_one_of_each() -> None:
    (command,) = read(FOLDER / "migration-service-worker@.service")["ExecStart"]
    assert options(command, "queues") == ["%i"]
    page = (ROOT / "docs/operators/install.md").read_text()
    (listed,) = re.findall(r"migration-service-worker@\{(.*?)\}", page)
    assert set(listed.split(",")) == set(QUEUES)
    own = {folder.name.partition("@")[2].partition(".")[0] for folder in FOLDER.glob("*.service.d")}
    assert own < set(QUEUES)


def test_each_process_gets_the_secrets_that_it_needs_as_files_that_exist() -> None:
    common = {"REDIS_URL"}
    files = (FOLDER / "tmpfiles.conf").read_text()
    made = set(re.findall(r"^f /etc/migration-service/secrets/(\S+) 0600", files, re.MULTILINE))
    needed = {
        "migration-service-web": common
        | {
            "DATABASE_URL",
            "MIGRATION_SERVICE_SECRET_KEY",
            "MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS",
            "MIGRATION_SERVICE_METRICS_TOKEN",
            "MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS",
            "MIGRATION_SERVICE_CERTIFICATE_KEY",
            "MIGRATION_SERVICE_OPENID_CLIENT_SECRET",
        },
        "migration-service-worker@": common | {"DATABASE_URL", "MIGRATION_SERVICE_SMTP_URL"},
        "migration-service-beat": common,
        "migration-service-flower": common | {"FLOWER_PASSWORD"},
    }
    assert {unit.stem for unit in UNITS} == set(needed)
    for unit in UNITS:
        settings = read(unit)
        loaded = dict(text.split(":") for text in settings["LoadCredential"])
        assert set(loaded) == needed[unit.stem] <= made
        assert all(path == f"/etc/migration-service/secrets/{name}" for name, path in loaded.items())
        named = {text for text in settings["Environment"] if "_FILE=" in text}
        assert named == {f"{name}_FILE=%d/{name}" for name in loaded if name in SECRET_SETTINGS}


def test_flower_is_on_loopback_with_its_password() -> None:
    flower = read(FOLDER / "migration-service-flower.service")
    (command,) = flower["ExecStart"]
    assert options(command, "address") == ["127.0.0.1"]
    assert 'FLOWER_BASIC_AUTH="operator:$$(cat %d/FLOWER_PASSWORD)"' in command
    assert flower["ExecStartPre"] == ["/usr/bin/test -s %d/FLOWER_PASSWORD"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("A=Migration <migration@sample-energy.example>", "Migration <migration@sample-energy.example>"),
        ("A=a@x, b@x", "a@x, b@x"),
        ("  A = blanks around  ", "blanks around"),
        ("A='single $HOME \\ kept '", "single $HOME \\ kept "),
        ('A="double \\" \\$ \\n " and more', 'double " $ \\n and more'),
        ('A=say \\"hi\\" `id` $(id); # no comment', 'say "hi" `id` $(id); # no comment'),
        ("A=it's", "it's"),
        ("A=one \\\n  two", "one   two"),
        ('A="two\nlines"', "two\nlines"),
        ("A=", ""),
        ("A=first\nA=second", "second"),
        ("#B=1\n;C=2 \\\nD=3\nA=4", "4"),
        ("no variable\nA=5", "5"),
        ("A=https://x.example/?a=b&c=d", "https://x.example/?a=b&c=d"),
    ],
)
def test_the_command_reads_the_environment_as_systemd_does(line: str, value: str) -> None:
    """The values are those of the units with systemd 252."""
    parse = runpy.run_path(str(FOLDER / "command.py"))["parse"]
    assert parse(line) == {"A": value}
    assert parse(f"{line}\nB=2\n") == {"A": value, "B": "2"}


def test_the_example_of_the_environment_is_read() -> None:
    parse = runpy.run_path(str(FOLDER / "command.py"))["parse"]
    example = (FOLDER / "environment.example").read_text()
    assert parse(example) == {"MIGRATION_SERVICE_TRUSTED_PROXIES": "1"}
    everything = parse(re.sub(r"^#(\w+=)", r"\1", example, flags=re.MULTILINE))
    assert everything["MIGRATION_SERVICE_EMAIL_FROM"] == "Migration <migration@example.com>"
    assert everything["MIGRATION_SERVICE_ALERT_EMAILS"] == "anne@example.com, bob@example.com"

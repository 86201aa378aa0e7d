"""The condition in which each test has to leave the scene, as the next one starts with it."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
from redis import RedisError

from drill.scene import SUPPLIER, TEAMS, Scene, obtain_token
from migration_service.services.processing.slots import Slots
from migration_service.tasks.names import SWEEP_INTERVAL
from support.servers import COMMAND, processes_in, wait_until

#: A child of a worker that is stuck in a task is killed within a minute, and another one has to start.
_REST_SECONDS = 150
#: How many of the last lines of a program are shown.
_LAST_LINES = 12

_IN_PROGRESS = """
SELECT external_account_number, attempt_id, tries, dispatched_at, now() FROM account_import_process
WHERE state = 'IN_PROGRESS'
"""

_RUNNING = "SELECT id, kind FROM batch WHERE state = 'RUNNING'"

PROGRAMS = ("postgres", "valkey", "interactive", "background", "beat", "flower", "web")

#: What is set up once, by what it is: the limit, and all that the requests of the tests need.
SETTINGS = """
SELECT 'the concurrency limit', concurrency_limit::text FROM service_limit
UNION ALL
SELECT 'supplier ' || code, to_jsonb(supplier)::text FROM import_supplier supplier WHERE code = %(code)s
UNION ALL
SELECT 'key ' || prefix, (to_jsonb(key) - 'last_used_at')::text FROM api_key key
JOIN import_supplier supplier USING (organisation_id) WHERE code = %(code)s
UNION ALL
SELECT 'team ' || operations_team.name, to_jsonb(operations_team)::text FROM operations_team
WHERE name = ANY(%(teams)s)
UNION ALL
SELECT 'operator ' || name, (to_jsonb(operator) - 'last_login_at')::text FROM operator WHERE name = 'admin'
"""


def settings_of(scene: Scene) -> dict[str, str]:
    """Return what is set up in the scene, by what it is."""
    with psycopg.connect(scene.database_url) as connection:
        return dict(connection.execute(SETTINGS, {"code": SUPPLIER, "teams": list(TEAMS)}).fetchall())


def missing_programs(scene: Scene) -> list[str]:
    """Return the programs that `up` is about to start again."""
    running: set[str] = set()
    # One look at all processes of the machine instead of one for each program.
    for process in processes_in(scene.home):
        # A short-lived one, such as PostgreSQL's for a connection, may end meanwhile.
        with suppress(psutil.NoSuchProcess):
            running.update(Path(process.cwd()).relative_to(scene.home.resolve()).parts)
    return [name for name in PROGRAMS if name not in running]


def is_swept(scene: Scene) -> bool:
    """Return True if the periodic tasks run. That beat and the worker exist does not say that they work."""
    try:
        age = Slots(scene.redis).seconds_since_reconcile()
    except RedisError:
        return False
    return age is not None and age < 2 * SWEEP_INTERVAL


def is_at_rest(scene: Scene) -> bool:
    """Return True if every program runs, requests are answered, and nothing is in progress."""
    return (
        not missing_programs(scene)
        and scene.is_serving()
        and is_swept(scene)
        and scene.is_idle()
        and not scene.query("SELECT FROM batch WHERE state = 'RUNNING'")
    )


def describe_work(scene: Scene) -> str:
    """Return what the doctor finds, what is in progress, who holds slots, and what was logged last."""
    doctor = subprocess.run(
        [str(COMMAND), "doctor"],
        env=os.environ | {"MIGRATION_SERVICE_HOME": str(scene.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = scene.service.output.splitlines()
    logged = [
        line[:300]
        for name in ("web", "workers")
        for line in [it for it in lines if it.startswith(f"{name} ")][-_LAST_LINES:]
    ]
    facts = [
        f"not running: {missing_programs(scene)}",
        f"in progress: {scene.query(_IN_PROGRESS)}",
        f"batches: {scene.query(_RUNNING)}",
        f"swept: {is_swept(scene)}",
        f"slots: {scene.redis.zrange('migration:slots', 0, -1, withscores=True)}, {scene.redis.time()}",
        f"messages: {scene.messages()}",
    ]
    # pytest shows the first line in its summary.
    return "\n".join(["; ".join(facts), *logged, doctor.stdout, doctor.stderr])


def find_faults(scene: Scene, settings: dict[str, str]) -> list[str]:
    """Return what is not as a test has to leave it: `settings` are those from before.

    What was frozen goes on, and a new token is obtained, so that only this test fails.
    """
    faults = []
    for process in processes_in(scene.home):
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_STOPPED:
                faults.append(f"{process.name()} in {process.cwd()} is frozen")
                process.resume()
    try:
        wait_until(lambda: is_at_rest(scene), "at rest", _REST_SECONDS)
    except AssertionError:
        return [*faults, f"it is not at rest after {_REST_SECONDS} seconds: {describe_work(scene)}"]
    found = settings_of(scene)
    faults += [
        f"{what} was {settings.get(what)} and is {found.get(what)}"
        for what in sorted(settings.keys() | found.keys())
        if settings.get(what) != found.get(what)
    ]
    if scene.send("GET", f"pending-account-import-processes/{SUPPLIER}/").status_code != 200:
        faults.append("the token is not accepted any more")
        scene.token = obtain_token(scene.address)
    return faults

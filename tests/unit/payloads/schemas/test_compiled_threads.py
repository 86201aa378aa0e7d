"""The compiled acceptance test is first used by many threads, as in a web process that starts."""

import subprocess
import sys

# It runs in its own process, because the fault is a crash of the interpreter. It compiles each time, because
# only the first use of a type is dangerous.
FIRST_USES = """
import sys, threading
from migration_service_local.samples import generate_accounts
from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.compiled import compile_schema
sys.setswitchinterval(1e-6)
payloads = list(generate_accounts(8, supplier="SAMPLE", seed=5))
schema = AccountImportSchema()
for _ in range(30):
    accept = compile_schema(schema)
    together = threading.Barrier(len(payloads))
    def use(payload):
        together.wait()
        accept(payload)
    threads = [threading.Thread(target=use, args=[payload]) for payload in payloads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_the_first_uses_may_come_from_many_threads_at_once() -> None:
    run = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr

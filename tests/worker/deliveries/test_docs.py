"""The receiver in docs/suppliers/webhooks.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import requests

from documentation.pages import ROOT
from migration_service.schemas.events import EventType
from support.servers import ending_with_us, wait_until
from worker.deliveries.conftest import Hooks


def test_the_receiver_takes_signed_messages_once_and_no_others(hooks: Hooks, tmp_path: Path) -> None:
    page = (ROOT / "docs/suppliers/webhooks.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert program.count("\n") <= 30
    program = (
        program.replace('int(os.environ["PORT"])', "0")
        .replace("HTTPServer((", "server = HTTPServer((")
        .replace(").serve_forever()", ")\nprint(server.server_port, flush=True)\nserver.serve_forever()")
    )
    (tmp_path / "receiver.py").write_text(program)
    # The port is known once it runs, which needs the secret of a webhook.
    endpoint_id, secret = hooks.add("http://127.0.0.1:1/")
    process = subprocess.Popen(
        ending_with_us(sys.executable, str(tmp_path / "receiver.py")),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"WEBHOOK_SECRETS": secret},
    )
    assert process.stdout is not None
    with process, process.stdout as printed:
        url = f"http://127.0.0.1:{int(printed.readline())}/"
        hooks.change(endpoint_id, url=url)
        hooks.tell(2)
        hooks.tell(type=EventType.BATCH_ENDED)
        hooks.send()
        assert hooks.states() == ["DELIVERED"] * 3
        hooks.run("UPDATE webhook_delivery SET state = 'PENDING', settled_at = NULL, attempts = 0")
        hooks.send()
        assert hooks.states() == ["DELIVERED"] * 3
        headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
        assert requests.post(url, b"{}", headers=headers, timeout=30).status_code == 401
        process.terminate()
        assert sorted(printed.read().split()) == ["account.created"] * 2 + ["batch.ended"]
    wait_until(lambda: process.poll() is not None, "it has ended")

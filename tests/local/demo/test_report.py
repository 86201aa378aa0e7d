"""The output of `up` when it is ready: credentials on a terminal only, and valid lines for a shell."""

import io
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from migration_service_local.console import Output, Terminal
from migration_service_local.demo.report import Sample, curl_lines, show_addresses

SETTINGS = {
    "MIGRATION_SERVICE_WEB_URL": "http://127.0.0.1:8000",
    "FLOWER_URL": "http://127.0.0.1:5555",
    "FLOWER_USER": "operator",
    "FLOWER_PASSWORD": "password-of-flower",
    "SANDBOX_VENDOR_URL": "http://127.0.0.1:8090",
}


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    key_file = tmp_path / "sample-api-key"
    key_file.write_text("key-of-sample\n")
    return Sample("SAMPLE_ENERGY", key_file, "10/0 3")


def printed(home: Path, sample: Sample | None, *, terminal: bool) -> str:
    written = io.StringIO()
    console = Terminal(file=written, force_terminal=terminal, soft_wrap=True, highlight=False, no_color=True)
    show_addresses(Output(console), home, SETTINGS, sample)
    return written.getvalue()


def test_a_terminal_shows_the_key_and_the_password(tmp_path: Path, sample: Sample) -> None:
    text = printed(tmp_path, sample, terminal=True)
    assert "key-of-sample" in text
    assert "password-of-flower" in text
    assert str(sample.key_file) in text


def test_other_outputs_show_the_files_that_hold_the_credentials(tmp_path: Path, sample: Sample) -> None:
    text = printed(tmp_path, sample, terminal=False)
    assert "key-of-sample" not in text
    assert "password-of-flower" not in text
    assert str(sample.key_file) in text
    assert f"FLOWER_PASSWORD in {tmp_path / 'settings.json'}" in text


def test_the_sandbox_vendor_is_marked_as_one(tmp_path: Path, sample: Sample) -> None:
    assert "sandbox (for trials only" in printed(tmp_path, sample, terminal=False)
    assert "for trials only" not in printed(tmp_path, None, terminal=False)


def test_the_lines_to_paste_are_a_valid_request_for_a_shell(sample: Sample) -> None:
    read_key, log_in, status = curl_lines("http://127.0.0.1:8000", sample.key_file, "SAMPLE", "10/0 3")
    arguments = log_in.removeprefix("TOKEN=$(curl ").partition(" |")[0]
    # The shell itself prints the arguments of curl.
    script = f"{read_key}\nprintf '%s\\n' {arguments}"
    words = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout
    query = json.loads(next(line for line in words.splitlines() if line.startswith("{")))["query"]
    assert query == 'mutation { obtainServiceToken(input: {APIKey: "key-of-sample"}) { token } }'
    assert shlex.split(status)[-1] == (
        "http://127.0.0.1:8000/v1/data-import/account-transfer-status/SAMPLE/10%2F0%203/"
    )

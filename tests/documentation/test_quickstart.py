"""The loop of the quickstart that waits for a batch ends with whatever becomes of the batch."""

import re
import subprocess
from pathlib import Path

import pytest

from documentation.pages import ROOT
from migration_service.states import BatchState

_LOOP = re.compile(r"^while call .+ done$", re.MULTILINE)
_GOES_ON = (BatchState.RUNNING, BatchState.WAITING)
_ENDS = [f'"state": "{state}"' for state in BatchState if state not in _GOES_ON]


@pytest.mark.parametrize("last", [*_ENDS, '"code": "authentication_failed"', ""])
def test_the_loop_ends_with_whatever_is_answered_last(tmp_path: Path, last: str) -> None:
    [loop] = _LOOP.findall((ROOT / "docs/suppliers/quickstart.md").read_text())
    answers = [*(f'"state": "{state}"' for state in _GOES_ON), last]
    for number, answer in enumerate(answers, 1):
        (tmp_path / str(number)).write_text(f"{{{answer}}}")
    # Each call answers with the next file.
    call = 'N=0; call() { N=$((N + 1)); cat "$N"; }'
    loop = re.sub(r"\S+batch\.json", "./batch.json", loop.replace("sleep 1", ":"))
    script = f"API= BATCH=; {call}; {loop}; echo $N"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"{len(answers)}\n"

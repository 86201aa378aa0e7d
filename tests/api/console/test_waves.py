"""A field that does not fit is marked also for whoever does not see it (its text: console/waves-plan.md)."""

import re

from support.console_client import ConsoleClient, text_of
from support.wave_client import WaveClient


def test_a_field_that_does_not_fit_is_marked_and_refers_to_what_is_wrong(
    administrator: ConsoleClient, waves: WaveClient
) -> None:
    waves.stage(1)
    path = f"/suppliers/{waves.supplier.code}/waves/new/"
    fields = {"team": waves.supplier.team, "waves-0-takes": "accounts", "waves-0-which": "nobody"}
    answer = administrator.post(path, administrator.tokens(path) | fields)
    assert answer.status_code == 400
    (wrong,) = re.findall(r'<(?:input|select|textarea)[^>]*aria-invalid="true"[^>]*>', answer.text)
    assert 'id="waves-0-which"' in wrong
    assert " autofocus" in wrong
    assert 'aria-describedby="waves-0-which-help"' in wrong
    (beside,) = re.findall('<div id="waves-0-which-help">(.*?)</div></div>', answer.text, re.DOTALL)
    assert "'nobody' is not pending" in text_of(beside)

"""What the steps of a file do, in sentences about one line and about several."""

from itertools import product

import pytest

from migration_service.blueprints.console.ordering import sentences_of
from migration_service.states import BatchKind, BatchMode


@pytest.mark.parametrize(("mode", "kind"), list(product(BatchMode, BatchKind)))
def test_a_step_has_a_sentence_about_one_line_and_one_about_several(mode: BatchMode, kind: BatchKind) -> None:
    one, several = sentences_of(mode, kind)
    assert one.startswith("%(num)s line is ")
    assert several.startswith("%(num)s lines are ")

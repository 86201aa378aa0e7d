"""The mistakes of `tools/known_mistakes.py` can still be made, and their tests exist."""

import pytest
from known_mistakes import KNOWN, ROOT, Known, apply


@pytest.mark.parametrize("known", KNOWN.values(), ids=list(KNOWN))
def test_a_known_mistake_can_still_be_made_and_its_tests_exist(known: Known) -> None:
    source = (ROOT / "src/migration_service" / known.file).read_text()
    assert apply(source, known) != source
    file, _, test = known.tests.partition("::")
    path = ROOT / "tests" / file
    assert path.exists()
    assert not test or f"def {test}(" in path.read_text()

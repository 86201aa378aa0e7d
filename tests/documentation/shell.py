"""The shell blocks of a page, as one script that runs them as a reader pastes them: from top to bottom.

A comment in the page, which readers do not see, says what its next block needs:

    <!-- before: COMMANDS -->                 run these first; NAME=... in them sets what the page calls NAME
    <!-- exit: 1 -->                          the last command of the block ends with this status
    <!-- elsewhere: WHAT RUNS IT: REASON -->  the block cannot be run by the tests
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PART = re.compile(
    r"^<!-- (?P<kind>before|exit|elsewhere): (?P<text>.*?) -->$|^```sh\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ASSIGNED = re.compile(r"^([A-Z_]+)=", re.MULTILINE)
_ONLY_MAKE = re.compile(r"(make [^;&|\n]*\n)+")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of shell commands, and what the comments before it say."""

    text: str
    before: str = ""
    exit_status: int = 0
    #: What runs the block, and why the tests do not. Empty if the tests run it.
    elsewhere: str = ""

    @property
    def is_run_here(self) -> bool:
        """Return whether the tests run the block. One that only calls make is a tool itself."""
        return not self.elsewhere and not _ONLY_MAKE.fullmatch(self.text)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the shell blocks of a page in their order."""
    said: dict[str, str] = {}
    for part in _PART.finditer(page.read_text()):
        if part["block"] is None:
            said[part["kind"]] = part["text"]
            continue
        yield Block(
            part["block"], said.get("before", ""), int(said.get("exit", "0")), said.get("elsewhere", "")
        )
        said = {}


def script(page: Path) -> str:
    """Return the commands of a page for `bash -eu`, which ends with an error if a block does not end as said.

    A word in the place of which a reader writes something of their own, as BATCH_ID, becomes the variable of
    that name, if a comment has set it before.
    """
    lines = []
    names: set[str] = set()
    for block in blocks(page):
        if not block.is_run_here:
            continue
        names.update(_ASSIGNED.findall(block.before))
        text = _with_variables(block.text, names)
        if block.exit_status:
            text = f"set +e\n{text}[ $? -eq {block.exit_status} ] || exit 1\nset -e\n"
        lines += [block.before, text]
    return "\n".join(lines)


def _with_variables(text: str, names: set[str]) -> str:
    for name in names:
        text = re.sub(rf"(?<![$\w{{]){name}(?![\w=])", f"${{{name}}}", text)
    return text

"""The name that was probably meant by one that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that `name` was probably meant to be, or None.

    Case, underscores and hyphens are ignored: `dryRun` and `dry-run` are both `dry_run`.
    """
    plain = {_plain(known): known for known in names}
    # Longer names than any of these are no misspelling, and comparing them takes long.
    close = get_close_matches(_plain(name[:100]), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")

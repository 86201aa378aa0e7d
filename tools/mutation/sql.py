"""Changes of the SQL and Lua in the triple-quoted texts of a module.

A column that is selected or inserted becomes NULL, one that is set is left out, a condition becomes TRUE,
and locks, orders and limits are left out. The texts are only scanned, not parsed. A change that is not
valid SQL is noticed by every test that runs the statement.
"""

import re
from collections.abc import Iterator

#: (line, what was changed, the changed source)
Mutant = tuple[int, str, str]

_TEXT = re.compile(r'"""(.*?)"""', re.DOTALL)
_IS_SQL = re.compile(r"^\s*(SELECT|WITH|INSERT|UPDATE|DELETE|COPY)\b", re.MULTILINE)
_IS_LUA = re.compile(r"redis\.call\(")
_LUA = [
    (">=", ">"),
    ("> ", ">= "),
    ("~=", "=="),
    ("==", "~="),
    (" + ", " - "),
    (" - ", " + "),
    ("'GT', ", ""),
    ("not ", ""),
    ("'(' .. ", ""),
    ("HSETNX", "HSET"),
    ("break", "granted = granted"),
]
#: Patterns whose match is replaced as a whole.
_SQL: list[tuple[str, str]] = [
    (r" SKIP LOCKED", ""),
    (r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?", ""),
    (r"ORDER BY [\w., ]+?(?=\s*(\n|\)|LIMIT|FOR |$))", ""),
    (r"\bLIMIT [^\n)]+", ""),
    (r"<>", "="),
    (r"(?<![<>!:]) = ", " <> "),
    (r" < ", " > "),
    (r"IS NULL", "IS NOT NULL"),
    (r"IS NOT NULL", "IS NULL"),
    (r"LEFT JOIN", "JOIN"),
    (r"\bNOT EXISTS", "EXISTS"),
    (r"\bDISTINCT ", ""),
    (r"now\(\)", "NULL"),
    (r" \+ 1\b", ""),
    (r" - 1\b", ""),
    (r"greatest\(", "least("),
]
#: Words that end a condition or an item of a list, outside of parentheses.
_END = re.compile(
    r"\b(AND|OR|WHERE|GROUP BY|ORDER BY|LIMIT|FOR UPDATE|RETURNING|UNION|SET|FROM|LEFT JOIN|JOIN|CROSS JOIN"
    r"|ON|THEN|ELSE|END|WHEN|DO UPDATE|USING)\b"
)


def text_mutants(source: str) -> Iterator[Mutant]:
    """Yield each single change of a text with SQL or Lua."""
    for text in _TEXT.finditer(source):
        body, start = text[1], text.start(1)
        if _IS_LUA.search(body):
            found = _replacements(body, [(re.escape(old), new) for old, new in _LUA])
        elif _IS_SQL.search(body):
            found = _sql_mutants(body)
        else:
            continue
        for begin, end, new in found:
            old = body[begin:end]
            if old == new:
                continue
            line = source.count("\n", 0, start + begin) + 1
            changed = source[: start + begin] + new + source[start + end :]
            yield line, f"{' '.join(old.split())[:60]!r} -> {' '.join(new.split())[:60]!r}", changed


def _replacements(body: str, pairs: list[tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
    for pattern, new in pairs:
        for place in re.finditer(pattern, body):
            yield place.start(), place.end(), new


def _sql_mutants(body: str) -> Iterator[tuple[int, int, str]]:
    columns = [
        items for place in re.finditer(r"\bSET\s+(?=\w+ =)", body) if (items := _list(body, place.end()))
    ]
    begins = [begin for items in columns for begin, _ in items]
    for begin, end, new in _replacements(body, _SQL):
        # The sign in `SET a = b` is not a comparison.
        if not (new == " <> " and any(body[one:begin].isidentifier() for one in begins if one < begin)):
            yield begin, end, new
    yield from _without_conditions(body)
    yield from _without_selected(body)
    for items in columns:
        yield from _without_set(body, items)


def _without_conditions(body: str) -> Iterator[tuple[int, int, str]]:
    for place in re.finditer(r"\b(WHERE|AND|ON|OR)\s+", body):
        begin, end = place.end(), _end_of(body, place.end())
        condition = body[begin:end].rstrip()
        is_between = re.search(r"BETWEEN [^()\n]*$", body[: place.start()]) is not None
        is_true = condition.upper() == "TRUE"
        if condition and not (is_true or is_between or re.search("BETWEEN|CONFLICT", condition)):
            yield begin, begin + len(condition), "TRUE"


def _without_selected(body: str) -> Iterator[tuple[int, int, str]]:
    for place in re.finditer(r"\bSELECT\s+(?!FROM\b)", body):
        for begin, end in _list(body, place.end()):
            item = body[begin:end]
            name = re.search(r"(?:\bAS\s+)?(\w+)\s*$", item)
            if name and "*" not in item and item not in ("1", "NULL"):
                yield begin, end, f"NULL AS {name[1]}"


def _without_set(body: str, items: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    (begin, end), *others = items
    column = body[begin:end].partition("=")[0].strip()
    yield (begin, others[0][0], "") if others else (begin, end, f"{column} = {column}")
    for (_, before), (_, end) in zip(items, others, strict=False):
        yield before, end, ""


def _list(body: str, begin: int) -> list[tuple[int, int]]:
    return list(_items(body, begin))


def _items(body: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each item of a comma-separated list."""
    while True:
        end = _end_of(body, begin, comma=True)
        text = body[begin:end]
        yield begin + len(text) - len(text.lstrip()), begin + len(text.rstrip())
        if end >= len(body) or body[end] != ",":
            return
        begin = end + 1


def _end_of(body: str, begin: int, *, comma: bool = False) -> int:
    """Return where the condition or item ends that begins here, parentheses and CASE considered."""
    depth, position = 0, begin
    while position < len(body):
        character = body[position]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return position
        elif depth == 0:
            if comma and character == ",":
                return position
            if body.startswith("CASE", position):
                position = body.find("END", position) + 2
            elif position > begin and (end := _END.match(body, position)) and body[position - 1].isspace():
                # `a IN (SELECT ... )` is in parentheses. `x FROM y` ends an item.
                return end.start()
        position += 1
    return position

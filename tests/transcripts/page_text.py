"""The text of a page of the console: a line for each block, `|` between cells, and forms with their fields.

Written are: `# headings`, `- items`, `[links](their addresses)`, `{buttons}`, and the fields of forms as
`name = value`, with everything that can be chosen behind it. `!` stands before what is urgent or wrong.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_BLOCKS = frozenset(
    (
        *("article", "caption", "details", "div", "dl", "dt", "fieldset", "figcaption", "figure", "form"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "label", "legend", "li", "main", "nav", "ol", "p"),
        *("pre", "section", "select", "summary", "svg", "table", "tbody", "thead", "tr", "ul"),
    )
)
_CELLS, _APART = frozenset(("td", "th", "dd")), frozenset(("br", "code", "span"))
_LEFT_OUT = frozenset(("datalist", "head", "script", "style"))
_PREFIXES = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "li": "- "}
_BOUNDS = ("min", "max", "maxlength", "pattern")
#: Hidden fields that differ at each time.
_TOKENS = frozenset(("csrf_token", "form_token", "seen"))
_EMPHASIS = re.compile(r"\b(urgent|is-invalid|alert-danger|alert-warning|btn-primary|active|table-warning)\b")


@dataclass
class Form:
    """Where a form is sent, and what a browser sends that nobody has touched."""

    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)


def write_page(html: str, *, whole: bool = False) -> str:
    """Return the text of the middle of a page, or of the whole page."""
    return _read(html, whole=whole).text()


def find_form(html: str, *actions: str) -> Form | None:
    """Return the first form of the page that is sent to one of these paths."""
    return next((it for it in _read(html, whole=True).forms if it.action in actions), None)


def _read(html: str, *, whole: bool = False) -> "_Reader":
    main = html.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    reader = _Reader()
    reader.feed(html if whole or not main else main)
    reader.close()
    return reader


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self._lines = [""]
        self._left_out = 0
        self._targets: list[str] = []
        self._select, self._is_single, self._textarea = "", True, ""
        #: The width of a part of a chart, whose text is a hint.
        self._drawn: str | None = None
        #: The forms that are posted.
        self.forms: list[Form] = []

    def text(self) -> str:
        """Return what was read."""
        lines = (" ".join(it.split()) for it in self._lines)
        return "".join(f"{it}\n" for it in lines if it.strip("-#| "))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write what comes before the text of an element."""
        given = {name: value or "" for name, value in attrs}
        if tag in _LEFT_OUT:
            self._left_out += 1
        elif tag in _BLOCKS:
            self._lines.append(_PREFIXES.get(tag, ""))
        elif tag in _CELLS and self._lines[-1].strip():
            self._write(" | ")
        elif tag in _APART:
            self._write(" ")
        if marks := " ".join(_EMPHASIS.findall(given.get("class", ""))):
            self._write(f"!{marks} ")
        if begin := getattr(self, f"_begin_{tag}", None):
            begin(given)

    def _begin_a(self, given: dict[str, str]) -> None:
        self._targets.append(given.get("href", "").removeprefix("/console"))
        self._write("[")

    def _begin_button(self, _given: dict[str, str]) -> None:
        self._write("{")

    def _begin_form(self, given: dict[str, str]) -> None:
        method, action = given.get("method", "get"), given.get("action", "").removeprefix("/console")
        self._write(f"form {method} {action} ")
        if method == "post":
            self.forms.append(Form(action))

    def _begin_input(self, given: dict[str, str]) -> None:
        self._write_field(given.get("type", "input"), given.get("name", ""), given)

    def _begin_textarea(self, given: dict[str, str]) -> None:
        self._textarea = given.get("name", "")
        self._write_field("textarea", self._textarea, given)

    def _begin_select(self, given: dict[str, str]) -> None:
        self._select, self._is_single = given.get("name", ""), "multiple" not in given
        self._write(f"choose {self._select}:")

    def _begin_option(self, given: dict[str, str]) -> None:
        value, is_chosen = given.get("value", ""), "selected" in given
        self._write(f" / {'(x) ' if is_chosen else ''}{value}: ")
        if is_chosen and not self._is_single and self.forms:
            self.forms[-1].fields.setdefault(self._select, []).append(value)
        elif is_chosen or self._is_single:
            self._keep(self._select, value, replaces=is_chosen)

    def _begin_svg(self, given: dict[str, str]) -> None:
        self._write(f"{given.get('aria-label', '')} ")

    def _begin_progress(self, given: dict[str, str]) -> None:
        self._write(f" {given.get('value', '')} of {given.get('max', '')} ")

    def _begin_rect(self, given: dict[str, str]) -> None:
        self._drawn = given["width"] if given.get("width", "").endswith("%") else ""

    def _write_field(self, kind: str, name: str, given: dict[str, str]) -> None:
        value = given.get("value", "y" if kind == "checkbox" else "")
        if "checked" in given or kind not in ("checkbox", "radio", "file"):
            self._keep(name, value)
        if name not in _TOKENS:
            bounds = "".join(f" ({it} {given[it]})" for it in _BOUNDS if it in given)
            chosen = " (x)" if "checked" in given else ""
            self._write(f" {kind} {name} = {value}{chosen}{bounds} ")

    def _keep(self, name: str, value: str, *, replaces: bool = True) -> None:
        if self.forms and name and (replaces or name not in self.forms[-1].fields):
            self.forms[-1].fields[name] = [value]

    def handle_endtag(self, tag: str) -> None:
        """Write what comes after the text of an element."""
        if tag in _LEFT_OUT:
            self._left_out -= 1
        elif tag == "rect":
            self._drawn = None
        elif tag == "textarea":
            self._textarea = ""
        elif tag == "a":
            self._write(f"]({self._targets.pop()})")
        elif tag == "button":
            self._write("}")
        elif (tag in _BLOCKS and tag != "dt") or tag == "dd":
            self._lines.append("")

    def handle_data(self, data: str) -> None:
        """Write text."""
        if self._textarea:
            self._keep(self._textarea, data.removeprefix("\n"))
        if self._drawn is None:
            self._write(data)
        elif not data.endswith(": 0"):
            self._write(f" {self._drawn} {data};" if data.strip() else "")

    def _write(self, text: str) -> None:
        if not self._left_out:
            self._lines[-1] += text

"""The commands for the operations of the interface. `operations.ndjson` has what each of them is.

`make environment` writes that file from the description, as it writes the methods of the client.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from migration_payloads.files.account_numbers import find_number
from migration_payloads.files.output import OutputPath, replacing, say, write_raw
from migration_service_client import Client, operations
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import open_lines
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import json_option, show_answer, show_items
from migration_service_client.command.verify import verify
from migration_service_client.command.watch import watch, watch_batch, watch_undo
from migration_service_client.requests import ABSENT, Lines, Pages, Request, as_sent

Described = Mapping[str, Any]

#: What follows that which a command has started, until it has ended.
_WATCHED: dict[str, Callable[[Client, Any, bool], None]] = {
    "start_batch": watch_batch,
    "start_undo": watch_undo,
    "start_replacement": watch_batch,
}
#: What shows the effect of a command before it asks.
_PREVIEWS = {
    "start_undo": "preview_undo",
    "start_go_live": "preview_go_live",
    "start_replacement": "preview_replacement",
}
#: How many items of a list are shown unless told otherwise, and how many are in a page at most.
_MOST, _PAGE = 50, 500
#: Bytes that are read from standard input at a time.
_BLOCK = 1 << 20
#: The address of a webhook. `url` is that of the service.
_THEIR_URL = "their_url"
_TYPES: dict[str, click.ParamType[Any]] = {"whole number": click.INT, "number": click.FLOAT}
_NUMBERS = "external_account_numbers"
_MEDIA = {"ndjson": "application/x-ndjson", "csv": "text/csv"}
_METAVARS = {"--supplier": "CODE", "--code": "CODE", "--batch": "ID", "--by": "NAME", "--team": "NAME"}


def describe() -> Iterator[Described]:
    """Yield what each operation is as a command."""
    with files(__package__).joinpath("operations.ndjson").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def make_command(name: str, line: str) -> click.Command:
    """Return the group of this name with its commands, or the command if it is one of its own."""
    made = click.Group(name, help=line)
    found: dict[str, list[Described]] = {}
    for it in describe():
        first, *names = it["command"].split()
        if first == name:
            found.setdefault("".join(word for word in names[:1] if not word.startswith("--")), []).append(it)
    if list(found) == [""]:
        return _command(name, found[""])
    for command, described in found.items():
        made.add_command(_command(command, described))
    if name == "batches":
        made.add_command(watch)
    if name == "certificate":
        made.add_command(verify)
    return made


def _command(name: str, described: list[Described]) -> click.Command:
    """Return the command for an operation, and for another that it carries out if more is given."""
    first, *others = described
    parameters = {it["name"]: _parameter(it) for it in first["parameters"]}
    own = {it.name for it in parameters.values()}
    keys: list[tuple[Described, str]] = []
    for other in others:
        word = other["command"].split()[-1].removeprefix("--").lower()
        added = {it["name"]: it for it in other["parameters"] if it["name"] not in parameters}
        key = next((it for it in added if it.startswith(word)), word)
        if key not in added:
            parameters[key] = click.Option([f"--{word}", key], is_flag=True, help=other["help"])
        keys.append((other, key))
        for it in added.values():
            parameters[it["name"]] = _parameter(it, word if it["name"] == key else "")
            parameters[it["name"]].required = False  # by the first operation

    @json_option
    @online()
    def run(*, service: Service, as_json: bool, **given: Any) -> None:
        if _THEIR_URL in given:
            given["url"] = given.pop(_THEIR_URL)
        chosen = next((it for it, key in keys if given[key]), first)
        if chosen is first:
            _refuse_options(keys, [it for it in parameters.values() if it.name not in own], given)
        elif missing := [it for it in chosen["parameters"] if it.get("required") and not given[it["name"]]]:
            raise click.MissingParameter(param=parameters[missing[0]["name"]])
        _Run(chosen, service, given, as_json=as_json).carry_out()

    more = {option.name: option for it in described for option in _more_options(it)}
    made = click.command(name, help=_help(described), short_help=first["help"])(run)
    if "previews" in more:  # which has no reason
        parameters["reason"].required = False
    made.params = [*parameters.values(), *more.values(), *map(_beside(parameters), made.params)]
    return made


def _refuse_options(
    others: list[tuple[Described, str]], options: list[click.Parameter], given: Mapping[str, Any]
) -> None:
    """Raise UsageError for an option that only another operation takes, which is not asked for."""
    wrong = next((it for it in options if given[str(it.name)] not in (None, (), False)), None)
    if wrong:
        raise click.UsageError(f"{wrong.opts[0]} needs --{others[0][1]}.")


def _beside(parameters: Mapping[str, click.Parameter]) -> Callable[[click.Parameter], click.Parameter]:
    """Return what renames the option for the address of the service if a webhook has one of that name."""
    taken = {option for it in parameters.values() for option in it.opts}

    def rename(parameter: click.Parameter) -> click.Parameter:
        if taken.intersection(parameter.opts):
            parameter.opts = ["--service-url"]
        return parameter

    return rename


def _help(described: list[Described]) -> str:
    text = f"{described[0]['help']}\n\n{described[0]['about']}"
    for it in described:
        if any(one["kind"] == "json" for one in it["parameters"]):
            text += f"\n\nFILE is JSON, the body of the operation `{it['operation']}`. - is standard input."
    return text


def _parameter(found: Described, word: str = "") -> click.Parameter:
    """Return an argument or an option. `word` is its name if another operation does without it."""
    if found["kind"] in ("json", "upload"):
        is_needed = found["kind"] == "json" and not word
        metavar = "FILE" if is_needed else "[FILE]"
        return click.Argument([found["name"]], type=click.File("rb"), required=is_needed, metavar=metavar)
    if found.get("argument") and not word:
        return _argument(found)
    match found:
        case {"name": "source"}:
            return click.Option(
                ["--pending", "source"], is_flag=True, help="All pending accounts instead of FILE."
            )
        case {"name": "limit"}:
            about = f"How many at most.  [default: {_MOST}]"
            return click.Option(["--limit"], type=click.IntRange(1), default=_MOST, metavar="N", help=about)
    made = _option(found, f"--{word or found['option']}")
    made.required = made.required and not word
    return made


def _name(found: Described) -> str:
    return _THEIR_URL if found["name"] == "url" else str(found["name"])


def _type(found: Described) -> click.ParamType[Any] | None:
    if "choices" in found:
        return click.Choice(found["choices"], case_sensitive=False)
    return _TYPES.get(found["kind"])


def _argument(found: Described) -> click.Argument:
    if found.get("many"):
        return click.Argument([found["name"]], nargs=-1, metavar="[EXTERNAL_ACCOUNT_NUMBER]...")
    shown = found["name"].upper().removesuffix("_CODE").removeprefix("IMPORT_")
    is_needed = found.get("required", False)
    metavar = shown if is_needed else f"[{shown}]"
    return click.Argument([_name(found)], type=_type(found), required=is_needed, metavar=metavar)


def _option(found: Described, option: str) -> click.Option:
    names, about = [option, _name(found)], found["help"]
    if found["kind"] == "flag":
        return click.Option(names, is_flag=True, default=None, help=about)
    if found["kind"] == "pair":
        types = tuple({"integer": click.INT}.get(it, click.STRING) for it in found["members"].values())
        metavar = " ".join(it.upper() for it in found["members"])
        return click.Option(names, type=types, metavar=metavar, help=about)
    metavar = _METAVARS.get(option, "TEXT") if found["kind"] == "text" else "N"
    return click.Option(
        names,
        type=_type(found),
        multiple="many" in found,
        required=found.get("required", False),
        metavar=None if "choices" in found else metavar,
        help=f"{about} Can be repeated." if "many" in found else about,
    )


def _more_options(described: Described) -> Iterator[click.Option]:
    if set(_MEDIA.values()) <= set(described["formats"]) and "text/csv" in described["formats"]:
        yield click.Option(
            ["--format", "media"], type=click.Choice(list(_MEDIA)), default="ndjson", show_default=True
        )
    if "text/html" in described["formats"]:
        yield click.Option(
            ["--html"], type=OutputPath(), required=True, metavar="FILE", help="Where to write the page."
        )
    if described["operation"] in _WATCHED:
        about = "Wait for the end. The exit status is 1 unless everything succeeded."
        yield click.Option(["--watch", "watches"], is_flag=True, help=about)
    if described["operation"] == "start_batch":
        about = "The supplier's totals for the file: see control-totals."
        yield click.Option(["--control-totals", "totals"], type=click.File("rb"), metavar="FILE", help=about)
    if any(it["name"] == _NUMBERS for it in described["parameters"]):
        about = "Also the accounts in the lines of FILE, as `delta` writes it. Can be repeated."
        path = click.Path(exists=True, dir_okay=False, path_type=Path)
        yield click.Option(["--accounts-of"], type=path, multiple=True, metavar="FILE", help=about)
    if described["operation"] in _PREVIEWS and "reason" in {it["name"] for it in described["parameters"]}:
        yield click.Option(["--preview", "previews"], is_flag=True, help="Only show what it would do.")
    if described.get("asks"):
        yield click.Option(["--yes", "is_sure"], is_flag=True, help="Do not ask for confirmation.")


def _read_numbers(file: Path) -> Iterator[str]:
    """Yield the account number of each line of a file. One that is left out could mean all accounts."""
    with open_lines(file) as lines:
        for line in lines:
            number = find_number(line.text or b"")
            if number is None:
                raise CannotRunError(f"{file}: line {line.number} has no valid external_account_number.")
            yield number


class _Run:
    """One run of a command."""

    def __init__(
        self, described: Described, service: Service, given: dict[str, Any], *, as_json: bool
    ) -> None:
        self._described = described
        self._name = described["operation"]
        self._service = service
        self._given = given
        self._as_json = as_json

    def carry_out(self) -> None:
        """Send the request, and show its answer."""
        given = self._given
        if self._name == "start_batch" and given["source"] == (given["file"] is not None):
            raise click.UsageError("Expected either a FILE or --pending: give one of them.")
        if "reason" in given and not (given.get("previews", True) or given["reason"]):
            raise click.UsageError("Missing option '--reason'. Only --preview needs none.")
        for file in given.get("accounts_of", ()):
            given[_NUMBERS] += tuple(_read_numbers(file))
        with self._service.client() as client:
            if preview := _PREVIEWS.get(self._name):
                only_previews = given.get("previews", False)
                if only_previews or not given["is_sure"]:
                    self._show_preview(client, preview, always=only_previews)
                if only_previews:
                    return
            self._ask()
            request = self._request(self._name)
            if isinstance(request, Lines):
                accept = _MEDIA.get(given.get("media", ""))
                self._write(client.iterate(as_sent(request, accept)))
            elif isinstance(request, Pages):
                self._list(client.iterate(request))
            else:
                self._show(client, client.send(request))

    def _show_preview(self, client: Client, preview: str, *, always: bool) -> None:
        """Show what an undo or a go-live would do."""
        only = ("import_supplier", "external_account_numbers", "batch", "wave", "at")
        found = client.send(self._request(preview, only))
        if always or not self._as_json:
            show_answer(found, self._as_json)

    def _ask(self) -> None:
        """Ask a person whether to go on, if that cannot be taken back."""
        if self._given.get("is_sure", True):
            return
        given = [self._given[it["name"]] for it in self._described["parameters"] if it.get("argument")]
        named = " ".join(str(it) for it in given if isinstance(it, str | int))
        sentence = f"{self._described['help'].removesuffix('.')}: {named}?"
        click.confirm(sentence, abort=True, err=True)

    def _request(self, name: str, only: Collection[str] = ()) -> Request[Any]:
        """Return the request. A body in a file is sent as it is: the service says what is wrong with it."""
        arguments: dict[str, Any] = {}
        content: bytes | None = None
        for it in self._described["parameters"]:
            value = self._given[it["name"]]
            if value in (None, ()) or (only and it["name"] not in only):
                continue
            if it["kind"] == "json":
                content = value.read()
                arguments |= dict.fromkeys(it["members"], ABSENT)
            else:
                arguments[it["name"]] = _value(it, value)
        if "account" in arguments:
            arguments["account"] = content
        make: Callable[..., Request[Any]] = getattr(operations, name)
        try:
            request = make(**arguments)
        except ValueError as error:
            raise CannotRunError(str(error)) from error
        return request if content is None else replace(request, body=content)

    def _write(self, lines: Iterator[bytes]) -> None:
        """Print lines, or write a page to its file."""
        file = self._given.get("html")
        if file is None:
            for line in lines:
                write_raw(line)
            return
        first = next(lines, b"")
        with replacing(file) as out:
            out.writelines(line + b"\n" for line in chain([first], lines))
        say(f"The report was written to {file}.")

    def _list(self, items: Iterator[Any]) -> None:
        limit = self._given.get("limit")
        show_items(islice(items, limit), self._as_json)
        is_given = click.get_current_context().get_parameter_source("limit") is not ParameterSource.DEFAULT
        if limit and not is_given and next(items, None) is not None:
            say(f"There are more than {limit}: see --limit.", err=True)

    def _show(self, client: Client, answer: Any) -> None:
        if totals := self._given.get("totals"):
            say(f"Batch {answer.batch_id} was started.", err=True)
            client.send(replace(operations.set_control_totals(answer.batch_id), body=totals.read()))
        if self._given.get("watches"):
            _WATCHED[self._name](client, answer, self._as_json)
            return
        show_answer(answer, self._as_json)
        # What a file has differs from its control totals, or a supplier is not ready.
        if False in (getattr(answer, "as_given", None), getattr(answer, "ready", None)):
            click.get_current_context().exit(1)


def _value(described: Described, value: Any) -> Any:
    """Return the argument of a method for what was given."""
    match described:
        case {"name": "source"}:
            return "pending" if value else None
        case {"name": "limit"}:
            return min(value + 1, _PAGE)
        case {"kind": "pair"}:
            return dict(zip(described["members"], value, strict=True))
        case {"kind": "upload"}:
            name = getattr(value, "name", "<stdin>")
            return iter(lambda: value.read(_BLOCK), b"") if name == "<stdin>" else name
        case {"many": "joined"}:
            return ",".join(value)
    return value

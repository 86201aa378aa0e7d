"""Write what the client has from the description. `make environment` runs it if the code has changed.

From each operation it writes a function that makes the request and the data of a command, from each schema a
type, and from each code an error class. It needs the service to be installed, and no server.
"""

import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from client_commands import commands  # noqa: E402
from description.write import main as write_description  # noqa: E402

from migration_service.blueprints.description.error_catalogue import Place, request_errors  # noqa: E402

FOLDER = ROOT / "clients" / "python" / "src" / "migration_service_client"
#: The files with the commands, and with an example of each type of event.
COMMANDS = "command/operations.ndjson"
EVENTS = "command/event_examples.ndjson"
#: The client obtains its tokens itself, and the other one only answers an example of that request.
LEFT_OUT = {"obtain_token", "show_token_hint"}
#: What the paths of all operations begin with. `target` adds it.
PREFIX = "/v1/data-import/"
#: The least members that an answer has in common with the one that extends it.
LEAST = 5
#: The body that is one argument.
ACCOUNT = "AccountImport"
_REF = "#/components/schemas/"

_HEAD = """{about}

Written by `make environment` from the description of the interface; do not edit it by hand.
"""
_SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "number": "Decimal", "null": "None"}


def _head(about: str) -> str:
    return f'"""{_HEAD.format(about=about)}"""\n\n'


def describe() -> dict[str, Any]:
    """Return the description of the interface."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "openapi.json"
        write_description(path)
        described: dict[str, Any] = json.loads(path.read_bytes())
        return described


def render(description: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        "models.py": "".join(_models(description)),
        "operations.py": "".join(_operations(description)),
        "codes.py": "".join(_codes()),
        COMMANDS: "".join(commands(operations(description), description)),
        EVENTS: "".join(_event_examples(description)),
    }


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and operation of each operation that is a method of the client."""
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if method != "parameters" and operation["operationId"] not in LEFT_OUT:
                shared = item.get("parameters", [])
                yield method, path, operation | {"parameters": shared + operation.get("parameters", [])}


def schemas_of(description: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the schemas of arguments, and of those that only answers have.

    The members of a body are arguments unless it is an account, and errors are exceptions.
    """
    sent: set[str] = set()
    answered: set[str] = set()
    for _, _, operation in operations(description):
        if name := _body(operation):
            schema = description["components"]["schemas"][name]
            _collect({"$ref": _REF + name} if name == ACCOUNT else schema, description, sent)
        _collect(_answer_schema(operation)[0], description, answered)
    _collect(description["webhooks"], description, answered)
    return sorted(sent), sorted(answered - sent)


def _body(operation: dict[str, Any]) -> str | None:
    """Return the name of the schema of an operation's body, or None if it has none, or is a file."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return content and str(content["schema"]["$ref"]).removeprefix(_REF)


def codes_of() -> dict[str, str]:
    """Return the meaning of each code that an answer can have."""
    return {it.code: it.meaning for it in request_errors() if it.place is Place.ANSWER}


def _collect(part: Any, description: dict[str, Any], names: set[str]) -> None:
    if isinstance(part, list):
        for it in part:
            _collect(it, description, names)
    elif isinstance(part, dict):
        name = str(part.get("$ref", "")).removeprefix(_REF)
        if name in description["components"]["schemas"] and name not in names:
            names.add(name)
            _collect(description["components"]["schemas"][name], description, names)
        for it in part.values():
            _collect(it, description, names)


def _models(description: dict[str, Any]) -> Iterator[str]:
    """Yield the module with a TypedDict for what is sent, and a dataclass for what is answered."""
    sent, answered = schemas_of(description)
    yield _head(
        about="The bodies of requests, as dictionaries, and the answers, as dataclasses.\n\n"
        "docs/suppliers/fields.md explains the fields of an account, and the description those of\n"
        "the answers. "
        "What the description does not require is None if it was not answered."
    )
    yield "from collections.abc import Sequence\nfrom dataclasses import dataclass\n"
    yield "from datetime import date, datetime\nfrom decimal import Decimal\n"
    yield "from typing import Any, Required, TypedDict\n\n\n"
    schemas = description["components"]["schemas"]
    for name in sent:
        yield f"class {name}(TypedDict, total=False):\n"
        required = schemas[name].get("required", [])
        for member, schema in schemas[name]["properties"].items():
            kind = _type(schema, sent=True)
            yield f"    {member}: {f'Required[{kind!r}]' if member in required else repr(kind)}\n"
        yield "\n\n"
    found = {name: _members(schemas[name]) for name in answered}
    for *bases, name in sorted(_family(name, found) for name in found):
        own = "".join(found[name][len(found[bases[-1]]) if bases else 0 :])
        head = f"class {name}({bases[-1]})" if bases else f"class {name}"
        yield f"@dataclass(frozen=True, slots=True, kw_only=True)\n{head}:\n{own}\n\n"
    yield "#: The class of the data of each type of event.\nEVENTS: dict[str, type] = {\n"
    for name, item in description["webhooks"].items():
        schema = item["post"]["requestBody"]["content"]["application/json"]["schema"]["allOf"][1]
        yield f'    "{name}": {_type(schema["properties"]["data"])},\n'
    yield "}\n"


def _members(schema: dict[str, Any]) -> list[str]:
    """Return the line of each member of an answer."""
    required, lines = schema.get("required", []), []
    for member, described in schema["properties"].items():
        kind = _type(described)
        if member not in required:
            kind = f"{kind.removesuffix(' | None')} | None"
        quoted = f'"{kind}"' if re.search(r"\b[A-Z]\w+[a-z]\b", kind.replace("Decimal", "")) else kind
        lines.append(f"    {member}: {quoted}{'' if member in required else ' = None'}\n")
    return lines


def _family(name: str, found: dict[str, list[str]]) -> list[str]:
    """Return an answer after those that it extends: each begins with all members of the one before."""
    own = found[name]
    bases = [it for it, less in found.items() if LEAST <= len(less) < len(own) and less == own[: len(less)]]
    return [*sorted(bases, key=lambda it: len(found[it])), name]


def _type(schema: dict[str, Any], *, sent: bool = False, prefix: str = "") -> str:  # noqa: PLR0911
    """Return the annotation for a schema, of a body that is sent or of an answer."""
    if "$ref" in schema:
        return prefix + str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        kinds = {_type(it, sent=sent, prefix=prefix) for it in schema["anyOf"]}
        return f"{(kinds - {'None'}).pop()} | None" if len(kinds) == 2 and "None" in kinds else "Any"
    kind = schema.get("type")
    if isinstance(kind, list):
        types = dict.fromkeys(_type(schema | {"type": it}, sent=sent, prefix=prefix) for it in kind)
        return " | ".join(sorted(types, key="None".__eq__))
    if kind == "array":
        inner = _type(schema.get("items", {}), sent=sent, prefix=prefix)
        return f"Sequence[{inner}]" if sent else f"tuple[{inner}, ...]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values, sent=sent) if isinstance(values, dict) else 'Any'}]"
    if sent and kind == "number":
        return "Decimal | int | float"
    if not sent and kind == "string" and schema.get("format") in ("date", "date-time"):
        return "date" if schema["format"] == "date" else "datetime"
    return _SCALARS.get(str(kind), "Any")


def _operations(description: dict[str, Any]) -> Iterator[str]:
    """Yield the module with a function for each operation, and the class that binds them to a client."""
    yield _head(
        about="The requests of the interface, as data. `Client` and `AsyncClient` send them: each function\n"
        "is a method of theirs."
    )
    yield "from collections.abc import Mapping, Sequence\nfrom datetime import datetime\n"
    yield "from decimal import Decimal\nfrom typing import Any\n\n"
    yield "from migration_service_client import models\n"
    yield "from migration_service_client.calls import Call, Each\n"
    yield "from migration_service_client.requests import (\n"
    yield "    ABSENT, Absent, Json, Lines, Pages, Request, members, target,\n)\n"
    yield "from migration_service_client.uploads import Progress, Source, Upload\n"
    bound = []
    for method, path, operation in operations(description):
        name, (kind, _, _) = operation["operationId"], _answer(operation)
        bound.append(f"    {name} = {'Call' if kind == 'Request' else 'Each'}({name})\n")
        yield _function(method, path, operation, description)
    yield '\n\nclass Operations:\n    """The operations as methods."""\n\n'
    yield from bound


def _answer_schema(operation: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the schema of the answer, and the type to accept."""
    content = next(
        answer["content"]
        for status, answer in sorted(operation["responses"].items(), key=lambda it: it[0] == "202")
        if status.startswith("2")
    )
    kinds = ("application/json", "application/x-ndjson", "text/csv", "text/html")
    accepted = next(it for it in kinds if it in content)
    schema = content[accepted]["schema"]
    # The second one is the full report, which the client always asks for.
    return schema["anyOf"][1] if "anyOf" in schema else schema, accepted


def _answer(operation: dict[str, Any]) -> tuple[str, str, str]:
    """Return the class of the request, the type of its answer or of one item, and the type to accept."""
    schema, accepted = _answer_schema(operation)
    if accepted != "application/json":
        raw = "dict[str, str]" if accepted == "text/csv" else "bytes"
        return "Lines", _type(schema, prefix="models.") if "$ref" in schema else raw, accepted
    if schema.get("type") == "array":
        return "Pages", _type(schema["items"], prefix="models."), accepted
    return "Request", _type(schema, prefix="models."), accepted


@dataclass
class _Function:
    """The parts of a function that makes a request."""

    positional: list[str] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    body: str = ""

    def add(self, name: str, annotation: str, *, required: bool) -> None:
        """Add an argument that is given by its name."""
        if required:
            self.required.append(f"{name}: {annotation}")
        else:
            self.optional.append(f"{name}: {annotation} | None = None")

    def signature(self) -> str:
        """Return the arguments."""
        named = self.required + self.optional
        return _indented([*self.positional, *(["*", *named] if named else [])])


def _indented(arguments: list[str]) -> str:
    """Return arguments of a function, one a line."""
    return "".join(f"\n    {it}," for it in arguments) + "\n" if arguments else ""


def _function(method: str, path: str, operation: dict[str, Any], description: dict[str, Any]) -> str:
    function = _Function()
    names = []
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            names.append(parameter["name"])
            function.positional.append(f"{parameter['name']}: {_type(parameter['schema'], sent=True)}")
        else:
            _add_parameter(function, parameter)
    if "requestBody" in operation:
        _add_body(function, _body(operation), description)
    name = operation["operationId"]
    kind, answer, accepted = _answer(operation)
    path = re.sub("{[a-z_]+}", "{}", path.removeprefix(PREFIX))
    address = ", ".join([f'"{name}"', f'"{method.upper()} {path}"', *names])
    arguments = [f"*target({address})", answer]
    if function.query:
        arguments.append(f"query={{{', '.join(function.query)}}}")
    if function.headers:
        arguments.append(f"headers={{{', '.join(function.headers)}}}")
    if function.body:
        arguments.append(f"body={function.body}")
    if kind == "Lines":
        arguments.append(f'accept="{accepted}"')
    if {"201", "202"} <= set(operation["responses"]):
        arguments.append("follow=True")
    about = operation["summary"].removesuffix(".")
    return (
        f"\n\ndef {name}({function.signature()}) -> {kind}[{answer}]:\n"
        f'    """{about}."""\n    return {kind}({textwrap.indent(_indented(arguments), "    ")}    )\n'
    )


def _add_parameter(function: _Function, parameter: dict[str, Any]) -> None:
    name = parameter["name"]
    if name == "report":
        function.query.append('"report": "full"')
        return
    variable = name.lower().replace("-", "_")
    annotation = _type(parameter["schema"], sent=True)
    if parameter["schema"].get("format") == "date-time":
        annotation = "datetime | str"
    function.add(variable, annotation, required=parameter.get("required", False))
    (function.headers if parameter["in"] == "header" else function.query).append(f'"{name}": {variable}')


def _add_body(function: _Function, name: str | None, description: dict[str, Any]) -> None:
    """Add an account as one argument, a file as one, and another body as an argument for each member."""
    if name is None:
        function.positional.append("file: Source | None = None")
        function.add("progress", "Progress", required=False)
        function.body = "None if file is None else Upload(file, progress)"
    elif name == ACCOUNT:
        function.positional.append("account: models.AccountImport | Json | bytes | str")
        function.body = "account"
    else:
        schema = description["components"]["schemas"][name]
        for member, part in schema["properties"].items():
            annotation = re.sub(r"models\.\w+", r"\g<0> | Json", _type(part, sent=True, prefix="models."))
            if member in schema.get("required", []):
                function.required.append(f"{member}: {annotation}")
            else:
                kind = f"{annotation} | Absent"
                if annotation.endswith(" | None"):
                    kind = f"{annotation.removesuffix(' | None')} | Absent | None"
                function.optional.append(f"{member}: {kind} = ABSENT")
        function.body = f"members({', '.join(f'{it}={it}' for it in schema['properties'])})"


def _codes() -> Iterator[str]:
    """Yield the module with an error class for each code."""
    yield _head(
        about="One class for each code that an answer can have. docs/suppliers/errors.md says what to do."
    )
    yield "from migration_service_client.errors import ServiceError\n"
    codes = codes_of()
    for code, meaning in sorted(codes.items()):
        about = textwrap.fill(meaning, 100, subsequent_indent="    ")
        yield f'\n\nclass {class_of(code)}(ServiceError):\n    """{about}"""\n'
    yield "\n\n#: The class of each code.\n"
    yield "BY_CODE: dict[str, type[ServiceError]] = {it.code: it for it in ServiceError.__subclasses__()}\n"


def _event_examples(description: dict[str, Any]) -> Iterator[str]:
    """Yield an example of each type of event as a line."""
    for item in description["webhooks"].values():
        example = item["post"]["requestBody"]["content"]["application/json"]["example"]
        yield json.dumps(example) + "\n"


def class_of(code: str) -> str:
    """Return the name of the error class of a code."""
    return "".join(it.capitalize() for it in code.split("_"))


def main() -> None:
    """Write the files."""
    for name, text in render(describe()).items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()

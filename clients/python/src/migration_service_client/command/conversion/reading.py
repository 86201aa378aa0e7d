"""Reads a mapping from TOML. Whatever it cannot mean is refused, before any file is read."""

import codecs
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from marshmallow import Schema, ValidationError
from marshmallow.fields import Field, Nested

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.fields import FreeObject, Values
from migration_payloads.schemas.json import encode_json
from migration_payloads.schemas.messages import shown
from migration_service_client.command.conversion.mapping import (
    ABSENT,
    Cells,
    Constant,
    File,
    Format,
    Item,
    Plan,
    Several,
    Value,
)
from migration_service_client.command.conversion.settings import (
    FileSettings,
    FormatSettings,
    ItemSettings,
    MappingError,
    ValueSettings,
    read_settings,
    refuse_unknown,
    words,
)
from migration_service_client.command.conversion.values import coded, converter, date_form

_PARTS = ("format", "codes", "files", "account")
_ITEM_SETTINGS = ItemSettings.__struct_encode_fields__


def read_mapping(path: Path) -> Plan:
    """Return what a mapping says. Files are beside it, unless it says otherwise. Raise MappingError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
    except UnicodeDecodeError:
        raise MappingError("it is not text in UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise MappingError(f"it is not TOML: {error}.") from None
    refuse_unknown(data, _PARTS, "at its top", "a table")
    for part in ("files", "account"):
        if not isinstance(data.get(part), dict):
            raise MappingError(f"it lacks the table [{part}].")
    return _Reader(path.parent, data).read()


class _Reader:
    def __init__(self, folder: Path, data: Mapping[str, Any]) -> None:
        self._account = data["account"]
        self._codes = data.get("codes", {})
        general = _as_table(data.get("format", {}), "format")
        read_settings(FormatSettings, general, "format")
        self._files = {
            name: _file(name, folder, general, _as_table(table, f"files.{name}"))
            for name, table in data["files"].items()
        }

    def read(self) -> Plan:
        if "join" in self._account or "from" not in self._account:
            raise MappingError(
                "account: expected `from`, the file with a row for each account, and no `join`."
            )
        account = self._item("account", self._account, ACCOUNT_IMPORT, None, many=True)
        return Plan(account, list(self._files.values()))

    def _item(self, place: str, table: Any, schema: Schema, outer: File | None, *, many: bool) -> Item:
        fields = dict(_as_table(table, place))
        settings = read_settings(
            ItemSettings, {name: fields.pop(name) for name in _ITEM_SETTINGS if name in fields}, place
        )
        refuse_unknown(fields, [*schema.fields, *_ITEM_SETTINGS], place, "a field")
        if missing := [name for name, it in schema.fields.items() if it.required and name not in fields]:
            raise MappingError(f"{place}: the required field {missing[0]} is missing.")
        rows = self._rows(place, settings, outer)
        file = rows["file"]
        values: dict[str, Value] = {}
        below: list[tuple[str, Item]] = []
        for name, spec in fields.items():
            field, at = schema.fields[name], f"{place}.{name}"
            if isinstance(field, Nested):
                tables = spec if isinstance(spec, list) and field.many else [spec]
                below += [
                    (name, self._item(at, it, field.schema, file, many=bool(field.many))) for it in tables
                ]
            elif isinstance(field, Values) and isinstance(spec, dict) and "value" not in spec:
                below.append((name, self._values(at, spec, field, file)))
            elif isinstance(field, Values) and isinstance(spec, list):
                values[name] = Several(tuple(self._value(at, it, field.inner, file) for it in spec))
            else:
                values[name] = self._value(at, spec, field, file)
        return Item(place, values=values, below=below, many=many, **rows)

    def _values(self, place: str, table: Mapping[str, Any], field: Values, outer: File) -> Item:
        """Return a list of values with one for each row."""
        rest = {name: it for name, it in table.items() if name not in _ITEM_SETTINGS}
        own = {name: it for name, it in table.items() if name in _ITEM_SETTINGS}
        rows = self._rows(place, read_settings(ItemSettings, own, place), outer)
        value = self._value(place, rest, field.inner, rows["file"])
        return Item(place, values={"": value}, plain=True, **rows)

    def _rows(self, place: str, settings: ItemSettings, outer: File | None) -> dict[str, Any]:
        """Return what an item has of its settings: its file, how it is joined, its groups and conditions."""
        found: dict[str, Any] = {}
        if settings.from_:
            refuse_unknown([settings.from_], self._files, f"{place}.from", "one of the files")
            file = self._files[settings.from_]
        elif outer is None or settings.join:
            raise MappingError(f"{place}: `join` needs `from`, the file that is joined.")
        else:
            file = outer
        if settings.from_ and outer is not None:
            pairs = (
                settings.join if isinstance(settings.join, dict) else {it: it for it in words(settings.join)}
            )
            if not pairs:
                raise MappingError(
                    f"{place}: `from` needs `join`, the columns that {settings.from_} and {outer.name} share."
                )
            found["parent_positions"] = tuple(outer.position(it) for it in pairs.values())
            found["lookup"] = _lookup(file, tuple(pairs))
            found["joined"] = True
        group = words(settings.group)
        if outer is None:
            found["lookup"] = _lookup(file, group) if group else 0
        when = [(file.position(name), frozenset(words(it))) for name, it in settings.when.items()]
        return found | {"file": file, "group": tuple(map(file.position, group)), "when": when}

    def _value(self, place: str, spec: Any, field: Field[Any], file: File) -> Value:
        if isinstance(spec, str):
            spec = {"column": spec}
        elif not isinstance(spec, dict):
            raise MappingError(
                f"{place}: expected the name of a column, or a table such as {{ value = {shown(spec)} }}."
            )
        settings = read_settings(ValueSettings, spec, place)
        if "value" in spec:
            if len(spec) > 1:
                raise MappingError(f"{place}: `value` is the same for all rows, and stands alone.")
            return Constant(_constant(settings.value, field, f"{place}.value"))
        columns = words(settings.column)
        if not columns or isinstance(field, FreeObject | Values):
            raise MappingError(f"{place}: expected `column` or `value`.")
        form = _format(file.format, settings, place)
        default = _constant(settings.default, field, f"{place}.default") if "default" in spec else ABSENT
        if settings.codes:
            name = f"codes.{settings.codes}" if isinstance(settings.codes, str) else "the codes of the field"
            convert = coded(field, self._code_list(settings.codes, field, place), name)
        else:
            times = None if settings.times is None else Decimal(settings.times)
            convert = converter(field, form, times)
        positions = tuple(map(file.position, columns))
        return Cells(columns, positions, convert, form.empty, settings.between, default)

    def _code_list(self, codes: str | Mapping[str, Any], field: Field[Any], place: str) -> Mapping[str, Any]:
        if isinstance(codes, str):
            refuse_unknown([codes], self._codes, f"{place}.codes", "a list of [codes]")
            codes, place = _as_table(self._codes[codes], f"codes.{codes}"), f"codes.{codes}, for {place}"
        return {code: it if it == "" else _constant(it, field, place) for code, it in codes.items()}


def _lookup(file: File, columns: tuple[str, ...]) -> int:
    for column in columns:
        file.position(column)
    return file.lookup(columns)


def _file(name: str, folder: Path, general: Mapping[str, Any], table: Mapping[str, Any]) -> File:
    place = f"files.{name}"
    settings = read_settings(FileSettings, {**general, **table}, place)
    _check_format(settings, place)
    path = folder / (settings.path or f"{name}.csv")
    file = File(name, path, _format(Format(), settings, place), words(settings.key))
    file.skip = {column: frozenset(words(it)) for column, it in settings.skip.items()}
    for column in file.skip:
        file.position(column)
    if file.key:
        _lookup(file, file.key)
    return file


def _check_format(settings: FormatSettings, place: str) -> None:
    try:
        "".encode(settings.encoding)
        codecs.lookup(settings.encoding)
    except (LookupError, ValueError):
        raise MappingError(
            f"{place}.encoding: {shown(settings.encoding)} is no encoding. "
            "Usual ones are utf-8, cp1252 (Windows), latin-1 and utf-16."
        ) from None
    if len(settings.delimiter) != 1 or settings.delimiter in "\r\n" or len(settings.quote) > 1:
        raise MappingError(f"{place}: `delimiter` and `quote` are one character each; `quote` may be empty.")


def _format(form: Format, settings: FormatSettings | ValueSettings, place: str) -> Format:
    """Return `form` with what the settings have."""
    changes = {
        name: value for name in Format.__slots__ if (value := getattr(settings, name, None)) is not None
    }
    if "dates" in changes:
        changes["dates"] = words(changes["dates"])
        for date in changes["dates"]:
            try:
                date_form(date)
            except ValueError as error:
                raise MappingError(
                    f"{place}.dates: {shown(date)} is no form of dates: {error}. Write it as DD-MM-YYYY."
                ) from None
    if "empty" in changes:
        changes["empty"] = form.empty | {it.strip() for it in words(changes["empty"])}
    made = Format(**{name: changes.get(name, getattr(form, name)) for name in Format.__slots__})
    if made.decimal == made.thousands or not made.decimal:
        raise MappingError(f"{place}: `decimal` and `thousands` are both {shown(made.decimal)}.")
    return made


def _constant(value: Any, field: Field[Any], place: str) -> Any:
    """Return a value of TOML as the field has it in a payload."""
    plain = value.isoformat() if hasattr(value, "isoformat") else value
    try:
        encode_json(plain)
        field.deserialize(plain)
    except (ValidationError, TypeError) as error:
        fault = error.messages[0] if isinstance(error, ValidationError) else "This is no value of JSON."
        raise MappingError(f"{place}: {fault}") from None
    return plain


def _as_table(found: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise MappingError(f"{place}: expected a table, [{place}].")
    return found

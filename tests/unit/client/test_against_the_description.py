"""The client has what the description has: each operation, each code, each field."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args

import click
import client_code
import pytest
from celery import current_app

from migration_service_client import AsyncClient, Client, codes, models
from migration_service_client.answers import decode
from migration_service_client.command import main
from migration_service_client.command.operations import describe
from migration_service_client.requests import Lines, Pages, Request

_CODE = re.compile(r"^\* `(\w+)`: ", re.MULTILINE)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    """The description of the interface. Its application must not run the tasks of later tests."""
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    try:
        return client_code.describe()
    finally:
        before.set_current()


def test_every_operation_is_a_method_of_both_clients(description: dict[str, Any]) -> None:
    names = {operation["operationId"] for _, _, operation in client_code.operations(description)}
    assert len(names) > 50
    for kind in (Client, AsyncClient):
        assert {name for name in names if inspect.isfunction(getattr(kind, name, None))} == names
        client = kind("http://127.0.0.1:1", "key")
        assert {getattr(client, name).__name__ for name in names} == names, "help() tells each by its name"


def test_every_operation_is_a_command_with_each_of_its_values(description: dict[str, Any]) -> None:
    found = {it["operation"]: it for it in describe()}
    context = click.Context(main)
    for _, _, operation in client_code.operations(description):
        described = found.pop(operation["operationId"])
        command: click.Command | None = main
        for name in described["command"].split():
            if isinstance(command, click.Group):
                command = command.get_command(context, name)
        assert command is not None, described
        names = {it["name"].lower().replace("-", "_") for it in operation["parameters"]}
        content = operation.get("requestBody", {}).get("content", {})
        for it in content.values():
            schema = it["schema"].get("$ref", "").rsplit("/", 1)[-1]
            names |= set(
                description["components"]["schemas"].get(schema, {"properties": {"file": 1}})["properties"]
            )
        given = {str(it.name) for it in command.params}
        if described["command"] == "reconcile":
            given = given - {"target"} | {"import_supplier_code", "comparison"}
        left_out = {"report", "file_name", *(() if "cursor" in given else ("cursor",))}
        assert "file" in given or names - left_out <= given, described
    assert not found


def test_every_code_of_an_answer_has_its_class(description: dict[str, Any]) -> None:
    answers = [
        it
        for _, _, operation in client_code.operations(description)
        for it in operation["responses"].values()
    ]
    answers += description["components"]["responses"].values()
    described = {code for it in answers for code in _CODE.findall(it.get("description", ""))}
    assert len(described) > 50
    assert described <= set(codes.BY_CODE) == set(client_code.codes_of())
    assert codes.BY_CODE["account_failed_validation"] is codes.AccountFailedValidation


def test_every_field_of_an_answer_is_an_attribute(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    _, answered = client_code.schemas_of(description)
    for name in answered:
        fields = {field.name for field in dataclasses.fields(getattr(models, name))}
        assert fields == set(schemas[name]["properties"])


def test_every_member_of_an_answer_with_an_error_is_an_attribute(description: dict[str, Any]) -> None:
    bodies = {name: it for name, it in description["components"]["schemas"].items() if "ErrorBody" in name}
    members = {member for body in bodies.values() for member in body["properties"]}
    assert {"service_account_number", "cursor", "transaction_data"} <= members
    example = {
        member: it["example"]
        for body in bodies.values()
        for member, it in body["properties"].items()
        if "example" in it
    }
    error = codes.AccountAlreadyImported(400, example)
    # An account with an error is not valid, and not returned.
    assert {member for member in members if not hasattr(error, member)} == {"valid", "account"}
    assert error.service_account_number == example["service_account_number"]


def test_every_example_of_an_answer_has_its_type(description: dict[str, Any]) -> None:
    seen = 0
    for operation, request in _requests(description):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json", {})
            if not status.startswith("2") or "anyOf" in content.get("schema", {}) or "example" not in content:
                continue
            # What was accepted is followed to its outcome.
            if status == "202" and request.follow:
                continue
            example = content["example"]
            for item in example if isinstance(request, Pages) else [example]:
                assert decode(request.answer, item) is not None
                seen += 1
    assert seen > 20


def _requests(description: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Request[Any]]]:
    """Yield each operation with its request, made with some value for each argument that it needs."""
    for _, _, operation in client_code.operations(description):
        make = getattr(Client, operation["operationId"])
        parameters = inspect.signature(make).parameters.values()
        needed = [it for it in parameters if it.default is it.empty]
        positional = ["x" for it in needed if it.kind is not it.KEYWORD_ONLY]
        yield operation, make(*positional, **{it.name: "x" for it in needed if it.kind is it.KEYWORD_ONLY})


def test_requests_say_how_their_answers_are_read(description: dict[str, Any]) -> None:
    kinds = {request.operation: type(request) for _, request in _requests(description)}
    assert kinds["get_batch"] is Request
    assert kinds["list_batches"] is Pages
    assert kinds["get_batch_results"] is Lines
    assert get_args(inspect.signature(Client.get_batch_results).return_annotation) == (models.LineResult,)

"""A form is read as it comes in: the fields, and then the file in blocks."""

from io import BytesIO

import pytest
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge

from migration_service.blueprints.console.multipart import FormWithFile

_FIELD = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
_FILE = '--b\r\nContent-Disposition: form-data; name="file"; filename="book.ndjson"\r\n\r\n'
_END = b"\r\n--b--\r\n"


def _form(body: bytes) -> FormWithFile:
    return FormWithFile(BytesIO(body), "b")


def test_the_fields_are_those_before_the_file_and_the_file_comes_in_blocks() -> None:
    content = bytes(range(256)) * 1000
    long = "x" * 70_000  # longer than a block
    fields = _FIELD.format("name", "week 12") + _FIELD.format("long", long) + _FIELD.format("empty", "")
    form = _form((fields + _FILE).encode() + content + _END + _FIELD.format("later", "1").encode())
    assert form.fields == {"name": "week 12", "long": long, "empty": ""}
    assert form.file_name == "book.ndjson"
    blocks = list(form.blocks())
    assert b"".join(blocks) == content
    assert len(blocks) > 1
    assert all(blocks)


def test_a_form_without_a_file_has_no_blocks() -> None:
    form = _form(_FIELD.format("name", "week 12").encode() + b"--b--\r\n")
    assert (form.fields, form.file_name) == ({"name": "week 12"}, None)
    assert list(form.blocks()) == []


@pytest.mark.parametrize("body", [b"", b"nothing of the kind", _FIELD.format("name", "week").encode()])
def test_a_form_that_ends_too_early_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"The upload is incomplete\."):
        _form(body)


def test_a_file_that_ends_too_early_is_refused_after_its_blocks() -> None:
    blocks = _form(_FILE.encode() + b"one\ntwo\n").blocks()
    assert next(blocks).startswith(b"one")
    with pytest.raises(BadRequest, match=r"The upload is incomplete\."):
        list(blocks)


def test_the_fields_and_their_names_have_a_bound_together() -> None:
    half = "x" * 49_999
    longest = _FIELD.format("a", half) + _FIELD.format("b", half)
    assert _form((longest + _FILE).encode() + _END).fields == {"a": half, "b": half}
    for fields in (longest + _FIELD.format("c", ""), _FIELD.format("a", 10 * half)):
        with pytest.raises(RequestEntityTooLarge):
            _form((fields + _FILE).encode() + _END)

"""The names in a path are checked before anything is looked up, and after the token."""

import re
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from flask.testing import FlaskClient

from support.imported_account import codes_of
from support.supplier_client import SupplierClient


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("%00", "invalid_characters"),
        ("%E2%80%AE1", "bidirectional_characters"),
        ("%201", "outer_spaces"),
        ("e%CC%81", "not_normalised"),
        ("1" * 129, "max_length"),
    ],
)
@pytest.mark.parametrize(
    ("path", "attr"),
    [
        ("/account-transfer-status/{supplier}/{name}/", "external_account_number"),
        ("/account-transfer-status/{name}/1/", "import_supplier_code"),
        ("/reconciliation/{name}/id-map/", "import_supplier_code"),
    ],
)
def test_a_name_in_a_path_that_cannot_exist_is_refused(
    supplier: SupplierClient, path: str, attr: str, name: str, code: str
) -> None:
    answer = supplier.get(path.format(supplier=supplier.code, name=name))
    assert answer.status_code == 400
    assert codes_of(answer) == [(attr, code)]


@pytest.mark.parametrize("name", ["%00", "a%00", "%ED%A0%80", "%ff"])
def test_a_path_that_is_not_text_is_refused_at_every_operation(
    supplier: SupplierClient, client: FlaskClient, description: Any, name: str
) -> None:
    """Each name of each path in the description, and paths of no operation."""
    tried = 0
    for path, operations in description["paths"].items():
        for parameter in re.findall("{(.+?)}", path):
            url = re.sub("{.+?}", "1", path.replace(f"{{{parameter}}}", name))
            as_sent = {"PATH_INFO": unquote_to_bytes(url).decode("latin-1")}
            for method in operations.keys() & {"get", "post", "put", "patch", "delete"}:
                tried += 1
                answer = getattr(supplier, method)("", environ_overrides=as_sent)
                assert answer.status_code == 400, (method, url, answer.text)
                # The number of a wave is part of the address: with another text it is no operation's path.
                attr = None if parameter == "number" else parameter
                assert codes_of(answer) == [(attr, "invalid_characters")]
                assert client.open(method=method, environ_overrides=as_sent).status_code in (400, 401)
    assert tried > 40
    for path in ("/v1/docs/assets/{}", "/{}/", "/console/batches/{}/", "/console/accounts/S/{}/"):
        as_sent = {"PATH_INFO": unquote_to_bytes(path.format(name)).decode("latin-1")}
        assert client.get(environ_overrides=as_sent).status_code == 400

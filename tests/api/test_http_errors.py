"""What Flask itself refuses is answered in the form of section 7.2, too."""

import pytest
from flask.testing import FlaskClient


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing/", 404, "not_found"),
        ("DELETE", "/v1/data-import/validate-account/", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_path_and_a_wrong_method_have_their_codes(
    client: FlaskClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert answer.json is not None
    detail = answer.json["detail"]
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert answer.json["errors"] == [{"detail": detail, "code": code, "attr": None}]
    assert ("Allow" in answer.headers) == (status == 405)

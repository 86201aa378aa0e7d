"""The headers of every response."""

from flask.testing import FlaskClient

from support.supplier_client import API, SupplierClient


def test_responses_with_data_of_accounts_are_neither_cached_nor_executed(
    supplier: SupplierClient, client: FlaskClient
) -> None:
    for answer in (supplier.get(f"/all-account-import-processes/{supplier.code}/"), client.get(f"{API}/x/")):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]

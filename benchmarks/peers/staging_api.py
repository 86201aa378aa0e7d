"""Peer a: stage, validate and status with FastAPI, pydantic and asyncpg, as a good engineer would write them.

It is started as `uvicorn staging_api:app --workers N`. DATABASE_URL has its own tables (schema.sql).
"""

import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import asyncpg
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from staging_payload import Account

_STAGE = """
INSERT INTO peer.staged_account AS staged
    (import_supplier_id, external_account_number, payload, warnings)
VALUES ($1, $2, $3, $4)
ON CONFLICT (import_supplier_id, external_account_number) DO UPDATE
    SET payload = excluded.payload, warnings = excluded.warnings, staged_at = now()
    WHERE staged.state = 'PENDING'
RETURNING xmax = 0
"""

# One answer needs two look-ups, as in the service: the owner of the token, and the account.
_STATUS = """
SELECT staged.state, staged.service_account_number
FROM peer.import_supplier supplier
LEFT JOIN peer.staged_account staged
     ON staged.import_supplier_id = supplier.id AND staged.external_account_number = $3
WHERE supplier.organisation_id = $1 AND supplier.code = $2
"""
_REPORTED = {"PENDING": "UNKNOWN", "IN_PROGRESS": "IN_PROGRESS", "IMPORTED": "COMPLETED"}


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=4, max_size=10) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=_lifespan)


async def _organisation(request: Request, authorization: Annotated[str, Header()] = "") -> int:
    digest = hashlib.sha256(authorization.removeprefix("Token ").encode()).digest()
    organisation: int | None = await request.app.state.pool.fetchval(
        "SELECT organisation_id FROM peer.token WHERE sha256 = $1 AND revoked_at IS NULL", digest
    )
    if organisation is None:
        raise HTTPException(401, "authentication_failed")
    return organisation


@app.post("/account-import-process/create-or-update/")
async def stage(
    account: Account,
    request: Request,
    response: Response,
    organisation: Annotated[int, Depends(_organisation)],
) -> dict[str, str]:
    async with request.app.state.pool.acquire() as connection:
        supplier = await connection.fetchrow(
            "SELECT id, status FROM peer.import_supplier WHERE code = $1 AND organisation_id = $2",
            account.import_supplier,
            organisation,
        )
        if supplier is None:
            raise HTTPException(400, "import_supplier_not_found")
        if supplier["status"] != "Ongoing":
            raise HTTPException(400, f"import_supplier_{supplier['status'].lower()}")
        warnings = account.warnings()
        first = await connection.fetchval(
            _STAGE,
            supplier["id"],
            account.external_account_number,
            account.model_dump_json(exclude_none=True),
            json.dumps(warnings) if warnings else None,
        )
    if first is None:
        raise HTTPException(400, "account_already_imported")
    response.status_code = 201 if first else 200
    return {
        "import_supplier": account.import_supplier,
        "external_account_number": account.external_account_number,
    }


@app.post("/validate-account/")
async def validate(
    account: Account, request: Request, organisation: Annotated[int, Depends(_organisation)]
) -> Response:
    found = await request.app.state.pool.fetchval(
        "SELECT id FROM peer.import_supplier WHERE code = $1 AND organisation_id = $2",
        account.import_supplier,
        organisation,
    )
    if found is None:
        raise HTTPException(400, "import_supplier_not_found")
    return Response(account.model_dump_json(exclude_none=True), media_type="application/json")


@app.get("/account-transfer-status/{supplier}/{number}/")
async def status(
    supplier: str, number: str, request: Request, organisation: Annotated[int, Depends(_organisation)]
) -> dict[str, str]:
    row = await request.app.state.pool.fetchrow(_STATUS, organisation, supplier, number)
    if row is None or row["state"] is None:
        raise HTTPException(404, "account_not_found" if row else "import_supplier_not_found")
    return {"status": _REPORTED[row["state"]], "service_account_number": row["service_account_number"] or ""}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}

// The whole migration through openapi-fetch, with the types that openapi-typescript generates.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Account = components["schemas"]["AccountImport"];
const baseUrl = process.env.SERVICE_ADDRESS!;
const order = JSON.parse(readFileSync(process.env.SERVICE_ORDER!, "utf-8"));
const [first, second, ...batchAccounts] = order.accounts as Account[];
const supplier: string = order.supplier;
const pair = { import_supplier: supplier, external_account_number: first.external_account_number };
const api = "/v1/data-import" as const;

const client = createClient<paths>({ baseUrl });
const query =
  "mutation ($input: ObtainServiceTokenInput!) { obtainServiceToken(input: $input) { token refreshToken } }";
const tokens = await client.POST("/v1/graphql/", {
  body: { query, variables: { input: { APIKey: process.env.SERVICE_API_KEY! } } },
});
const token = tokens.data?.data?.obtainServiceToken?.token;
assert(token, JSON.stringify(tokens.error));
client.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Token ${token}`);
    return request;
  },
});

for (const account of [first, second]) {
  const valid = await client.POST(`${api}/validate-account/`, { body: account });
  assert(valid.data && "external_account_number" in valid.data);
  assert.equal(valid.data.external_account_number, account.external_account_number);
  const staged = await client.POST(`${api}/account-import-process/create-or-update/`, { body: account });
  assert(staged.data && "import_supplier" in staged.data);
  assert.equal(staged.data.import_supplier, supplier);
}

function processBody(account: Account, dry_run = false) {
  return {
    import_supplier_code: supplier,
    external_account_number: account.external_account_number,
    operations_team_name: order.team as string,
    dry_run,
  };
}

const process_ = `${api}/account-import-process/process/` as const;
const rehearsed = await client.POST(process_, { body: processBody(first, true) });
assert.equal(rehearsed.error?.code, "dry_run_succeeded");
const created = await client.POST(process_, { body: processBody(first) });
assert.equal(created.response.status, 201);
const accepted = await client.POST(process_, {
  params: { header: { Prefer: "respond-async" } },
  body: processBody(second),
});
assert.equal(accepted.response.status, 202);
assert(accepted.data && "attempt_id" in accepted.data);
// The outcome of an asynchronous attempt.
let attempt: components["schemas"]["AttemptAnswer"] | undefined;
while (attempt?.state !== "FINISHED") {
  await sleep(200);
  const answer = await client.GET(`${api}/account-import-attempts/{attempt_id}/`, {
    params: { path: { attempt_id: accepted.data.attempt_id } },
  });
  attempt = answer.data;
}
assert.equal(attempt.outcome, "SUCCEEDED");

const listed: components["schemas"]["ListedImport"][] = [];
for (let cursor: string | undefined, more = true; more; ) {
  const page = await client.GET(`${api}/all-account-import-processes/{import_supplier_code}/`, {
    params: { path: { import_supplier_code: supplier }, query: { limit: 1, cursor } },
  });
  listed.push(...(page.data ?? []));
  const next = page.response.headers.get("Link")?.match(/<(.*)>/)?.[1];
  cursor = next && new URL(next, baseUrl).searchParams.get("cursor")!;
  more = next !== undefined;
}
assert.equal(listed.length, 2);

const notes = await client.POST(`${api}/notes/create/`, { body: { ...pair, ...order.notes } });
// Answers have two shapes: these, and the report that a parameter asks for.
assert(Array.isArray(notes.data));
assert.equal(notes.data.length, 2);
const transactions = await client.POST(`${api}/transactions/create/`, { body: { ...pair, ...order.transactions } });
assert(transactions.data && "results" in transactions.data);
assert.equal(transactions.data.results.length, 2);
const statements = await client.POST(`${api}/historical-statements/create/`, {
  body: { ...pair, ...order.statements },
});
assert.equal(statements.response.status, 201);
const instruction = await client.POST(`${api}/payment-instruction/create/`, {
  body: { ...pair, ...order.payment_instruction },
});
assert.equal(instruction.response.status, 201);

const started = await client.POST(`${api}/batches/`, {
  params: {
    query: { import_supplier: supplier, mode: "import", operations_team_name: order.team },
    header: { "Idempotency-Key": `${supplier}-1` },
  },
  // openapi-fetch makes JSON of every body unless it is told what to send.
  body: batchAccounts.map((account) => JSON.stringify(account) + "\n").join(""),
  bodySerializer: (lines) => new Blob([lines as string]),
  headers: { "Content-Type": "application/octet-stream" },
});
let batch = started.data;
while (batch?.state !== "COMPLETED") {
  await sleep(200);
  assert(batch, JSON.stringify(started.error));
  const path: { batch_id: string } = { batch_id: batch.batch_id };
  batch = (await client.GET(`${api}/batches/{batch_id}/`, { params: { path } })).data;
}
assert.equal(batch.counts.IMPORTED, batchAccounts.length);
const results = await client.GET(`${api}/batches/{batch_id}/results/`, {
  params: { path: { batch_id: batch.batch_id } },
  parseAs: "text",
});
assert.equal(results.data?.toString().trim().split("\n").length, batchAccounts.length);

const path = { import_supplier_code: supplier };
const reconciled = await client.GET(`${api}/reconciliation/{import_supplier_code}/`, { params: { path } });
// A comparison that takes longer than ten seconds would be answered 202, without a verdict.
assert(reconciled.data && "clean" in reconciled.data && reconciled.data.clean);
const idMap = await client.GET(`${api}/reconciliation/{import_supplier_code}/id-map/`, {
  params: { path },
  parseAs: "text",
});
assert.equal(idMap.data?.trim().split("\n").length, 5);

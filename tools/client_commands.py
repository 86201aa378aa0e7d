"""The commands of `migration-client` for the operations of the interface, written with `client_code`.

Each operation becomes one line of JSON: its command, its help, and what each argument or option is.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

#: The command of each operation. With an option or an argument behind it, the operation is what the command
#: does when that is given.
NAMES = {
    "validate_account": "accounts validate",
    "stage_account": "accounts stage",
    "process_account": "accounts process",
    "get_account_status": "accounts status",
    "get_account": "accounts show",
    "list_all_account_imports": "accounts list",
    "list_pending_account_imports": "accounts pending",
    "list_imported_account_imports": "accounts imported",
    "list_failed_account_imports": "accounts failed",
    "get_attempt": "accounts attempt",
    "list_attempts": "accounts attempts",
    "skip_accounts": "accounts skip",
    "erase_account": "accounts erase",
    "get_id_map": "accounts id-map",
    "list_import_suppliers": "suppliers list",
    "get_import_supplier": "suppliers show",
    "create_notes": "added-data notes",
    "create_transactions": "added-data transactions",
    "create_historical_statements": "added-data statements",
    "create_payment_instruction": "added-data payment-instruction",
    "start_batch": "batches start",
    "list_batches": "batches list",
    "get_batch": "batches show",
    "get_batch_results": "batches results",
    "get_failed_lines": "batches failed-lines",
    "pause_batch": "batches pause",
    "resume_batch": "batches resume",
    "cancel_batch": "batches cancel",
    "set_batch_brake": "batches error-threshold",
    "retry_failed_lines": "batches retry-failed",
    "compare_batches": "batches compare",
    "get_changed_accounts": "batches compare --accounts",
    "get_control_totals": "batches control-totals",
    "set_control_totals": "batches control-totals FILE",
    "plan_waves": "waves plan",
    "list_plans": "waves list",
    "get_plan": "waves show",
    "change_wave": "waves change",
    "start_wave": "waves start",
    "pause_wave": "waves pause",
    "resume_wave": "waves resume",
    "reconcile_wave": "waves reconcile",
    "approve_wave": "waves approve",
    "stop_wave": "waves stop",
    "check_readiness": "ready",
    "accept_warning": "ready --accept",
    "reconcile_import_supplier": "reconcile",
    "set_old_figures": "old-figures send",
    "get_old_figures": "old-figures show",
    "list_old_figure_differences": "old-figures differences",
    "acknowledge_open": "acknowledgements add",
    "get_acknowledgements": "acknowledgements list",
    "preview_undo": "undo preview",
    "start_undo": "undo start",
    "list_undos": "undo list",
    "get_undo": "undo show",
    "get_undo_results": "undo results",
    "cancel_undo": "undo cancel",
    "get_receipt": "go-live receipt",
    "accept_exception": "go-live accept",
    "preview_go_live": "go-live preview",
    "start_go_live": "go-live start",
    "list_go_lives": "go-live list",
    "get_go_live": "go-live show",
    "cancel_go_live": "go-live cancel",
    "preview_replacement": "replacements preview",
    "start_replacement": "replacements start",
    "start_certificate": "certificate start",
    "list_certificates": "certificate list",
    "get_certificate": "certificate show",
    "download_certificate": "certificate download",
    "prove_account": "certificate account",
    "create_webhook": "webhooks create",
    "list_webhooks": "webhooks list",
    "get_webhook": "webhooks show",
    "change_webhook": "webhooks change",
    "remove_webhook": "webhooks remove",
    "rotate_webhook_secret": "webhooks rotate-secret",
    "test_webhook": "webhooks test",
    "list_webhook_deliveries": "webhooks deliveries",
    "get_webhook_delivery": "webhooks deliveries --delivery",
    "redeliver_webhook": "webhooks redeliver",
    "list_events": "events list",
    "list_event_consumers": "events consumers",
    "forget_event_consumer": "events forget",
    "list_sessions": "sessions list",
    "end_session": "sessions end",
    "get_api_key": "api-keys show",
    "get_report": "report",
}
#: What cannot be taken back is asked about, as the console does.
_PERMANENT = {
    "cancel_batch",
    "stop_wave",
    "start_undo",
    "start_replacement",
    "cancel_undo",
    "start_go_live",
    "remove_webhook",
    "erase_account",
    "end_session",
}
_OPTIONS = {
    "import_supplier": "supplier",
    "import_supplier_code": "supplier",
    "import_suppliers": "supplier",
    "operations_team_name": "team",
    "stop_window_lines": "stop-window",
    "stop_ignore_codes": "stop-ignore",
    "event_types": "type",
    "line_numbers": "line",
    "overrides": "override",
    "delivery_number": "delivery",
    "enabled": "on/--off",
}
#: These of a body are arguments if it needs them, in this order.
_ARGUMENTS = ("import_supplier", "import_supplier_code", "external_account_number", "url")
_KINDS = {"integer": "whole number", "boolean": "flag", "number": "number"}


def commands(
    operations: Iterator[tuple[str, str, dict[str, Any]]], description: dict[str, Any]
) -> Iterator[str]:
    """Yield a line of JSON for each operation, in the order of the names."""
    found = {it["operationId"]: it for _, _, it in operations}
    for name, command in NAMES.items():
        yield json.dumps(_command(name, command, found.pop(name), description), ensure_ascii=False) + "\n"
    if found:
        raise SystemExit(f"These operations have no name as a command in {__file__}: {', '.join(found)}.")


def _command(
    name: str, command: str, operation: dict[str, Any], description: dict[str, Any]
) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    parameters = [
        _parameter(it["name"].lower().replace("-", "_"), it, it["in"], required=it.get("required", False))
        for it in operation["parameters"]
        if not _is_left_out(it)
    ]
    if content and "application/json" not in content:
        parameters.insert(0, {"name": "file", "kind": "upload", "argument": True})
    elif content:
        schema = _resolved(content["application/json"]["schema"], description)
        parameters += _members(schema, description)
    answers = [it for status, it in operation["responses"].items() if status.startswith("2")]
    return {
        "operation": name,
        "command": command,
        "help": f"{operation['summary'].removesuffix('.')}.",
        "about": operation.get("description", ""),
        **({"asks": True} if name in _PERMANENT else {}),
        "formats": [it for it in answers[0].get("content", {}) if it != "application/problem+json"],
        "parameters": sorted(parameters, key=lambda it: not it.get("argument", False)),
    }


def _is_left_out(parameter: Mapping[str, Any]) -> bool:
    """Return whether the client gives the parameter itself. Only the position in the feed is for people."""
    is_position = parameter["name"] == "cursor" and "Link" in parameter.get("description", "")
    return is_position or parameter["name"] in ("report", "file_name")


def _members(schema: dict[str, Any], description: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an argument or option for each member of a body, or a file for one with objects in it."""
    required = schema.get("required", [])
    members = {name: _resolved(it, description) for name, it in schema["properties"].items()}
    made = [
        _parameter(name, {"schema": it, **it}, "body", required=name in required)
        for name, it in members.items()
    ]
    if any(it["kind"] == "object" for it in made):
        names = ["account"] if "ledgers" in members else list(members)
        return [{"name": "file", "kind": "json", "argument": True, "members": names}]
    order = {name: number for number, name in enumerate(_ARGUMENTS)}
    return sorted(made, key=lambda it: order.get(it["name"], len(order)))


def _parameter(name: str, found: Mapping[str, Any], place: str, *, required: bool) -> dict[str, Any]:
    schema = found["schema"]
    about = found.get("description", "")
    is_many = "array" in _types(schema) or "separated by commas" in about
    item = schema.get("items", {}) if "array" in _types(schema) else schema
    kind = next((_KINDS[it] for it in _types(item) if it in _KINDS), "text")
    if not {"string", *_KINDS} & set(_types(item)) or (is_many and "properties" in item):
        parts = item.get("properties", {})
        is_pair = not is_many and set(parts) == set(item.get("required", [])) != set()
        kind = "pair" if is_pair else "object"
    is_argument = place == "path" or (required and (name in _ARGUMENTS and place == "body"))
    is_argument = is_argument or (required and name == "stop_after_errors")
    made: dict[str, Any] = {"name": name, "kind": kind, "help": about}
    if is_argument or name == "external_account_numbers" or (place, name) == ("query", "wave"):
        made["argument"] = True
    else:
        made["option"] = _OPTIONS.get(name, name.replace("_", "-"))
    if kind == "pair":
        made["members"] = {it: next(iter(_types(part))) for it, part in item["properties"].items()}
    if kind == "flag" and "The default is true" in about:
        made["option"] += f"/--no-{made['option']}"
    if required:
        made["required"] = True
    if is_many:
        made["many"] = "joined" if "separated by commas" in about else "list"
    if "enum" in item:
        made["choices"] = item["enum"]
    return made


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return tuple(it for it in ([kind] if isinstance(kind, str) else kind) if it != "null")


def _resolved(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return found | {name: it for name, it in schema.items() if name != "$ref"}

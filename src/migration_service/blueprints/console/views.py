"""All views of the console, with what an operator needs to open them."""

from dataclasses import dataclass

from migration_service.services.access.operators import OperatorRole

#: Where `app.create_app` mounts the console.
MOUNT = "/console"


@dataclass(frozen=True, slots=True)
class Need:
    """The requirements for opening a view."""

    #: The lowest role, or None if the view is open to everybody, such as the login page.
    role: OperatorRole | None
    #: Whether it concerns every organisation, so that only operators bound to none may open it.
    whole_service: bool = False


_EVERYBODY = Need(None)
_READ = Need(OperatorRole.READ)
_READ_ALL = Need(OperatorRole.READ, whole_service=True)
_OPERATE = Need(OperatorRole.OPERATE)
_ADMINISTER = Need(OperatorRole.ADMINISTER)
_ADMINISTER_ALL = Need(OperatorRole.ADMINISTER, whole_service=True)

#: The views of each page that need the same.
_NEEDED: dict[Need, dict[str, str]] = {
    _EVERYBODY: {
        "assets": "bootstrap dark",
        "login": "show enter",
        "openid": "begin come_back",
    },
    _READ: {
        "login": "leave change_password",
        "overview": "show",
        "suppliers": "show reconcile sign_off show_open download_differences",
        "acknowledgements": "show_all",
        "certificates": "show_all show download",
        "readiness": "show",
        "waves": "show_all show_plan show",
        "batches": "show_all show",
        "comparison": "show",
        "undo": "show show_all outcomes",
        "reports": "of_supplier of_batch of_plan of_wave",
        "findings": "show_code show_lines show_line",
        "accounts": "search show",
        "work": "show",
        "emails": "show",
        "setup": "show_teams",
        "webhooks": "show_all",
        "keys": "show",
        "audit": "show",
    },
    _OPERATE: {
        "suppliers": "download_id_map",
        "acknowledgements": "add",
        "certificates": "start",
        "supplier_actions": "set_status_of set_emails set_time_zone_of",
        "readiness": "accept",
        "go_live": "accept_exception",
        "wave_planning": "plan",
        "wave_actions": "change start pause resume reconcile approve stop",
        "batch_actions": "pause resume cancel retry repeat change_threshold",
        "control_totals": "give",
        "undo": "undo_batch undo_account replace_batch cancel",
        "findings": "reveal_line",
        "downloads": "hand_back results",
        "upload": "show send",
        "accounts": "show_personal_data skip unskip",
    },
    _ADMINISTER: {
        "go_live": "set_moment",
        "webhooks": "set_email switch_off switch_on",
        "supplier_actions": "create rename remove",
        "setup": "create_team rename_team remove_team",
        "keys": "revoke",
        "audit": "export",
    },
    _ADMINISTER_ALL: {
        "operators": "create set_role set_password disable",
    },
    _READ_ALL: {
        "operators": "show",
        "health": "show",
    },
}
VIEWS: dict[str, Need] = {
    f"{page}.{name}": need
    for need, pages in _NEEDED.items()
    for page, names in pages.items()
    for name in names.split()
}

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
_OPERATE_ALL = Need(OperatorRole.OPERATE, whole_service=True)
_ADMINISTER = Need(OperatorRole.ADMINISTER)
_ADMINISTER_ALL = Need(OperatorRole.ADMINISTER, whole_service=True)

VIEWS: dict[str, Need] = {
    "assets.bootstrap": _EVERYBODY,
    "assets.dark": _EVERYBODY,
    "login.show": _EVERYBODY,
    "login.enter": _EVERYBODY,
    "login.choose_language": _EVERYBODY,
    "openid.begin": _EVERYBODY,
    "openid.come_back": _EVERYBODY,
    "login.leave": _READ,
    "login.change_password": _READ,
    "overview.show": _READ,
    "suppliers.show": _READ,
    "suppliers.reconcile": _READ,
    "suppliers.sign_off": _READ,
    "suppliers.download_id_map": _OPERATE,
    "suppliers.show_open": _READ,
    "suppliers.download_open": _OPERATE,
    "acknowledgements.show_all": _READ,
    "acknowledgements.add": _OPERATE,
    "certificates.show_all": _READ,
    "certificates.start": _OPERATE,
    "certificates.show": _READ,
    "certificates.download": _READ,
    "supplier_actions.set_status_of": _OPERATE,
    "supplier_actions.set_emails": _OPERATE,
    "supplier_actions.set_time_zone_of": _OPERATE,
    "supplier_actions.create": _ADMINISTER,
    "supplier_actions.rename": _ADMINISTER,
    "supplier_actions.remove": _ADMINISTER,
    "go_live.set_moment": _ADMINISTER,
    "readiness.show": _READ,
    "readiness.accept": _OPERATE,
    "receipts.accept": _OPERATE,
    "waves.show_all": _READ,
    "waves.show_plan": _READ,
    "waves.show": _READ,
    "wave_planning.plan": _OPERATE,
    "wave_actions.change": _OPERATE,
    "wave_actions.start": _OPERATE,
    "wave_actions.pause": _OPERATE,
    "wave_actions.resume": _OPERATE,
    "wave_actions.reconcile": _OPERATE,
    "wave_actions.approve": _OPERATE,
    "wave_actions.stop": _OPERATE,
    "batches.show_all": _READ,
    "batches.show": _READ,
    "batch_actions.pause": _OPERATE,
    "batch_actions.resume": _OPERATE,
    "batch_actions.cancel": _OPERATE,
    "batch_actions.retry": _OPERATE,
    "batch_actions.repeat": _OPERATE,
    "error_threshold.change": _OPERATE,
    "control_totals.give": _OPERATE,
    "comparison.choose": _READ,
    "comparison.show": _READ,
    "comparison.accounts": _OPERATE,
    "undo.undo_batch": _OPERATE,
    "undo.undo_account": _OPERATE,
    "undo.replace_batch": _OPERATE,
    "undo.cancel": _OPERATE,
    "undo.show": _READ,
    "undo.show_all": _READ,
    "undo.outcomes": _READ,
    "reports.of_supplier": _READ,
    "reports.of_batch": _READ,
    "reports.of_plan": _READ,
    "reports.of_wave": _READ,
    "findings.show_code": _READ,
    "findings.show_lines": _READ,
    "findings.show_line": _READ,
    "findings.reveal_line": _OPERATE,
    "downloads.failed_lines": _OPERATE,
    "downloads.hand_back": _OPERATE,
    "downloads.results": _OPERATE,
    "upload.show": _OPERATE,
    "upload.send": _OPERATE,
    "accounts.search": _READ,
    "accounts.show": _READ,
    "accounts.show_personal_data": _OPERATE,
    "accounts.skip": _OPERATE,
    "accounts.unskip": _OPERATE,
    "work.show": _READ,
    "limits.change": _OPERATE_ALL,
    "emails.show": _READ,
    "setup.show_teams": _READ,
    "vendors.show": _READ,
    "vendors.create": _ADMINISTER_ALL,
    "vendors.set_rate": _ADMINISTER,
    "webhooks.show_all": _READ,
    "webhooks.show": _READ,
    "webhooks.show_delivery": _READ,
    "webhooks.create": _ADMINISTER,
    "webhooks.change": _ADMINISTER,
    "webhooks.switch": _ADMINISTER,
    "webhooks.remove": _ADMINISTER,
    "webhooks.rotate": _ADMINISTER,
    "webhooks.test": _ADMINISTER,
    "webhooks.redeliver_one": _ADMINISTER,
    "webhooks.redeliver_many": _ADMINISTER,
    "setup.show_organisations": _READ,
    "setup.create_team": _ADMINISTER,
    "setup.rename_team": _ADMINISTER,
    "setup.remove_team": _ADMINISTER,
    "setup.create_new_organisation": _ADMINISTER_ALL,
    "keys.show": _READ,
    "keys.issue": _ADMINISTER,
    "keys.roll": _ADMINISTER,
    "keys.revoke": _ADMINISTER,
    "operators.show": _READ_ALL,
    "operators.create": _ADMINISTER_ALL,
    "operators.set_role": _ADMINISTER_ALL,
    "operators.set_password": _ADMINISTER_ALL,
    "operators.disable": _ADMINISTER_ALL,
    "audit.show": _READ,
    "audit.export": _ADMINISTER,
    "health.show": _READ_ALL,
}

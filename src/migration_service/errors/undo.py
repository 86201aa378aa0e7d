"""Errors about undoing imports, about go-live, and about certificates."""

from migration_payloads.errors import InvalidError, LineError
from migration_service.errors.base import NotFoundError


class UndoNotFoundError(NotFoundError):
    """The undo does not exist, or belongs to another organisation."""

    code = "undo_not_found"
    default_detail = "The undo does not exist, or belongs to another organisation."
    detail_with_found = "Undo {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the undo."


class UndoStateError(InvalidError):
    """The undo has ended, so it cannot be cancelled."""

    code = "undo_state_conflict"
    default_detail = "The state of the undo does not allow this."
    remedy = "Check the state of the undo first."


class NothingToUndoError(InvalidError):
    """None of the accounts exists, so there is nothing to undo."""

    code = "nothing_to_undo"
    default_detail = "Nothing of the batch is left: it created or added nothing, or all of it was undone."
    remedy = "Check the id of the batch, or the numbers. An account that was undone is pending."


class NothingToReplaceError(InvalidError):
    """None of the accounts has a newer version that could replace it, or waits to be created."""

    code = "nothing_to_replace"
    default_detail = "No newer version of these accounts was sent that could replace them."
    remedy = "Preview the replacement, which says what is known of the accounts. Send their newer versions."


class AccountInUndoError(InvalidError):
    """The account is in another undo that has not ended."""

    code = "account_in_undo"
    default_detail = "The account is in an undo that has not ended."
    remedy = "Wait until that undo has ended, or leave the account out."


class ImportSupplierLiveError(InvalidError):
    """The supplier has gone live. Its accounts belong to the platform, and can no longer be undone."""

    code = "import_supplier_live"
    default_detail = "The import supplier has gone live. Its accounts can no longer be undone."
    remedy = "Correct the account on the platform."


class AccountLiveError(LineError):
    """The account has gone live. It belongs to the platform, and can no longer be undone or replaced."""

    code = "account_live"
    default_detail = "The account has gone live. It can no longer be undone or replaced."
    remedy = "Correct the account on the platform."


class GoLivePastError(InvalidError):
    """The moment of the go-live is in the past, and that was not confirmed."""

    code = "go_live_in_past"
    default_detail = "The moment of the go-live is in the past."
    detail_with_found = "The moment of the go-live, {found}, is in the past."
    remedy = "Check the date. If the supplier did go live then, an operator can confirm that."
    default_attr = "at"


class GoLiveFarError(InvalidError):
    """The moment of the go-live is more than five years from now, so it is probably mistyped."""

    code = "go_live_too_far"
    default_detail = "The moment of the go-live is more than five years from now."
    detail_with_found = "The moment of the go-live, {found}, is more than five years from now."
    remedy = "Check the year. A date that is not known yet can be set later."
    default_attr = "at"


class GoLiveNotFoundError(NotFoundError):
    """The go-live does not exist, or belongs to another organisation."""

    code = "go_live_not_found"
    default_detail = "The go-live does not exist, or belongs to another organisation."
    detail_with_found = "Go-live {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the go-live."


class GoLiveStateError(InvalidError):
    """The moment of the go-live has come, or it was cancelled, so that it cannot be cancelled."""

    code = "go_live_state_conflict"
    default_detail = "The moment of the go-live has come, or it was cancelled. It is not changed any more."
    remedy = "Check the state of the go-live first."


class NothingGoesLiveError(InvalidError):
    """None of the accounts exists and has yet to go live."""

    code = "nothing_goes_live"
    default_detail = "No account exists that has yet to go live: none was created, or all have gone live."
    remedy = "Check the id of the batch, or the numbers, and who owns the accounts."


class CertificateNotFoundError(NotFoundError):
    """The certificate does not exist, or belongs to another organisation."""

    code = "certificate_not_found"
    default_detail = "The certificate does not exist, or belongs to another organisation."
    detail_with_found = "Certificate {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the certificate."


class CertificateStateError(InvalidError):
    """The certificate cannot be made yet, or has not been made yet."""

    code = "certificate_state_conflict"
    default_detail = "The certificate has not been made yet."
    remedy = "Reconcile first. Then wait until the certificate has ended."


class CertificatesNotSetUpError(InvalidError):
    """The service has no key to sign certificates."""

    code = "certificates_not_set_up"
    default_detail = "The service has no key to sign certificates."
    remedy = "Ask the operator to set MIGRATION_SERVICE_CERTIFICATE_KEY."


class NoReceiptError(InvalidError):
    """Nothing has been compared, so there is no receipt."""

    code = "no_receipt"
    default_detail = "There is no receipt: nothing of this supplier or batch has been compared."
    remedy = "Reconcile the supplier or the batch first."


class GoLiveNotReadyError(InvalidError):
    """Go-live asks for a receipt: a recent comparison in which nothing is open that nobody has accepted."""

    code = "go_live_not_ready"
    default_detail = "Go-live asks for a recent comparison in which nothing is open."
    remedy = (
        "Reconcile again if the comparison is too old. Resolve what is open, or have it accepted with a "
        "reason."
    )


class GoLiveFourEyesError(InvalidError):
    """Somebody else has to decide than the person who accepted an exception."""

    code = "go_live_needs_another_person"
    default_detail = "You have accepted an exception of the receipt, so somebody else has to decide."
    remedy = "Let another person decide that the accounts go live."

"""Errors of forms. Each is shown at its field, and the top of the page links to it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask_wtf import FlaskForm
from markupsafe import Markup, escape
from wtforms import Field, FieldList, FormField

from migration_service.blueprints.console.display import prose, zoned
from migration_service.blueprints.console.languages import current_language
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.errors import ErrorItem, ServiceError

#: A moment in an answer.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
#: The fields for errors without a path. The first one that the form has is used.
_FIELDS_OF_CODE: dict[str, tuple[str, ...]] = {
    "name_taken": ("name", "code"),
    "name_invalid": ("name", "code"),
    "password_invalid": ("password", "new"),
    "operations_team_not_found": ("team",),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An error and its field."""

    #: The id of the field to link to, or None if the error is about no field.
    field_id: str | None
    label: str
    text: str
    #: The code of an error about no field.
    code: str | None = None


class FormWithFaults(FlaskForm):
    """A form that shows each error at its field. WTForms' own errors are in the reader's language."""

    class Meta(FlaskForm.Meta):
        """Options of WTForms."""

        @property
        def locales(self) -> list[str]:
            """The languages of the messages of WTForms."""
            return [current_language()]

    def in_order(self) -> list[Field]:
        """Return the fields in the order of the page."""
        return list(self)

    def find_field(self, item: ErrorItem) -> Field | None:
        """Return the field that a service's error is about, or None if the form does not have it."""
        names = [*reversed((item.attr or "").split(".")), *_FIELDS_OF_CODE.get(item.code, ())]
        return next((self[name] for name in names if name in self), None)

    def take(self, error: ServiceError) -> list[Fault]:
        """Attach the errors of a service to their fields. Return the errors about no field."""
        others = []
        for item in error.errors:
            field = self.find_field(item)
            if field is None:
                others.append(Fault(None, "", tell(item), item.code))
            elif (text := tell(item)) not in field.errors:
                field.errors = [*field.errors, text]
        return others

    def list_faults(self) -> list[Fault]:
        """Return the errors of the visible fields, in the order of the page."""
        return [Fault(field.id, label, text) for label, field in _visible(self) for text in field.errors]


def attributes_at_fault(field: Field, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return the attributes that link a field to its errors. The first faulty field gets the focus."""
    found: dict[str, Any] = {"aria-describedby": f"{field.id}-help"} if field.description else {}
    if field.errors:
        found |= {"aria-describedby": f"{field.id}-help", "aria-invalid": "true"}
        found["autofocus"] = faults[0].field_id == field.id if faults else False
    return found


def _visible(form: Any, before: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the visible fields, each with its label. Rows are counted from 1."""
    for field in form.in_order():
        label = f"{before}{field.label.text}"
        if isinstance(field, FieldList):
            for number, row in enumerate(field, start=1):
                yield from _visible(row.form, f"{label} {number}, ")
        elif not isinstance(field, FormField) and field.type not in ("HiddenField", "CSRFTokenField"):
            yield label, field


def tell(item: ErrorItem) -> Markup:
    """Return an error in the reader's language and time zone. The part about the value is in English."""
    said = _MOMENT.sub(lambda found: zoned(datetime.fromisoformat(found[0])), item.detail)
    if current_language() == "en":
        return escape(said)
    detail = Markup('<span class="text-body-secondary" lang="en">{}</span>').format(said)
    return prose(remedy_of(item.code).meaning) + " " + detail

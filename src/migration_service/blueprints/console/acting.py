"""The common part of all forms that change something.

GET shows what will be done, and to how many things. POST does it, in one transaction with the entry of the
audit. A form has a token, so that sending it twice does it once: the second answer is that of the first. What
needs transactions of its own is done before, under the same token.

Acts that are one call of a service, one sentence and one message are rows of tables. One that needs an `if`
is a view of its own, with `act`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from flask import Blueprint, flash, make_response, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import HiddenField, StringField, validators

from migration_service import errors
from migration_service.blueprints.console.access import current_session
from migration_service.blueprints.console.display import zoned
from migration_service.blueprints.console.faults import FormWithFaults
from migration_service.blueprints.console.languages import _, _l, ngettext
from migration_service.blueprints.requests.errors import status_of
from migration_service.blueprints.requests.resources import resources
from migration_service.db.sql import OpenTransaction, autocommit
from migration_service.services.idempotency.keys import KeptAnswer, KeyedRequest, find_answer, keep_answer
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.jobs import Jobs, dispatch

_Shown = TypeVar("_Shown")

#: Names and values that help to decide.
Facts = tuple[tuple[str, Any], ...]


def when_counted(at: datetime | None) -> Facts:
    """Return when the numbers of a form were counted, unless that was just now."""
    return ((_("Accounts were counted"), zoned(at)),) if at else ()


class ActionForm(FormWithFaults):
    """A form that changes something. Its fields follow the two hidden fields of every form."""

    form_token = HiddenField(default=lambda: str(uuid4()), validators=[validators.UUID()])

    def values(self) -> dict[str, Any]:
        """Return the values of the visible fields by name. A text that was not sent is empty."""
        fields = (it for it in self if it.type not in ("HiddenField", "CSRFTokenField"))
        return {it.name: (it.data or "") if isinstance(it, StringField) else it.data for it in fields}


def reason_field(longest: int = 1_000) -> StringField:
    """Return the field for the reason of a decision."""
    return StringField(
        _l("Reason"),
        validators=[validators.DataRequired(), validators.Length(max=longest)],
        description=_l("Without personal data: it is kept."),
    )


class ReasonForm(ActionForm):
    """The reason of a decision."""

    reason = reason_field()


@dataclass(frozen=True, slots=True)
class Link:
    """A page to go to, and the text of the link."""

    location: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A preview of what a form will do."""

    title: str
    #: A sentence: what will be done, to how many things.
    sentence: str
    button: str
    #: The page to go back to, also afterwards, unless `Done` names another one.
    back: str
    #: It cannot be reverted.
    is_dangerous: bool = False
    #: There is nothing to do. The page says so and has no button.
    is_empty: bool = False
    #: Names and values that help to decide.
    facts: Facts = ()
    #: A link to a form that does something else or more.
    other: Link | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a form."""

    message: str
    #: The page to go to, or None to go back.
    location: str | None = None


def act(
    form: ActionForm,
    preview: Callable[[Session], Preview],
    perform: Callable[[Session], Done],
    *,
    find_effects: Callable[[Session], Facts] | None = None,
    template: str = "action.html",
    prepare: Callable[[], None] = lambda: None,
    afterwards: Sequence[Callable[[], None]] = (),
) -> Response:
    """Show what the form will do, or do it.

    `find_effects` returns what a filled form would do, if that depends on its fields. Such a form does
    nothing unless the operator was shown exactly that. `prepare` is called before the transaction of
    `perform`, and can be called again if that fails. `afterwards` are called once it is committed, before the
    response says so.
    """
    page = _Page(form, preview, template, has_effects=find_effects is not None)
    if request.method == "GET" or "more" in request.form:
        return page.show(200)
    if not form.validate():
        return page.show(400)
    try:
        if earlier := _find_earlier(form):
            return _go(earlier, afterwards)
        if find_effects is not None:
            with resources().Session.begin() as session:
                effects = find_effects(session)
            if "show" in request.form or request.form.get("seen") != _digest(effects):
                return page.show(200, effects=effects)
        return _go(_do(form, preview, perform, prepare), afterwards)
    except (errors.InvalidError, errors.RequestFailedValidationError) as error:
        return page.show(status_of(type(error)), error=error)


def _do(
    form: ActionForm,
    preview: Callable[[Session], Preview],
    perform: Callable[[Session], Done],
    prepare: Callable[[], None],
) -> KeptAnswer:
    try:
        prepare()
        with resources().Session.begin() as session:
            back = preview(session).back
            done = perform(session)
            answer = KeptAnswer(303, {"Location": done.location or back}, done.message.encode())
            keep_answer(OpenTransaction.of(session), _keyed(form), answer)
        return answer
    except Exception:
        # The same form may have had its effect in the meantime.
        if earlier := _find_earlier(form):
            return earlier
        raise


def feed_workers() -> None:
    """Tell workers that there are lines to process."""
    feed_batches(resources().celery, resources().Session)


def dispatch_jobs(kind: Jobs) -> Callable[[], None]:
    """Return what tells workers that there are jobs of a kind."""
    return lambda: dispatch(resources().celery, resources().Session, kind)


@dataclass(frozen=True, kw_only=True)  # without slots, which `Act[...](...)` does not support
class Act(Generic[_Shown]):
    """Something that a person does. Its texts are marked for the catalogue, and take values by name."""

    #: The name of the view, and its path below that of all acts if that is another one.
    name: str
    path: str | None = None
    title: str
    #: What will be done: a sentence, its forms for one thing and for several, or what returns one of both.
    sentence: str | tuple[str, str] | Callable[[_Shown], str | tuple[str, str]]
    button: str | tuple[str, str]
    #: What was done. It also takes the values of the form.
    done: str
    #: What does it. It gets a session, and by name the arguments of the view and the values of the form.
    do: Callable[..., object]
    form: type[ActionForm] = ActionForm
    #: The values with which fields start.
    starts_with: Callable[[_Shown], Mapping[str, object]] = lambda _shown: {}
    #: The number for the sentence and the button.
    number: Callable[[_Shown], int] = lambda _shown: 0
    facts: Callable[[_Shown], Facts] = lambda _shown: ()
    #: Facts that have to be read.
    more_facts: Callable[..., Facts] = lambda _session, **_names: ()
    is_dangerous: bool = False
    #: Whether it cannot be done now, as the sentence says, so that there is no button.
    is_empty: Callable[[_Shown], bool] = lambda _shown: False
    #: The page to go to, by the same values as `do`, if that is not the one to go back to.
    leads_to: Callable[..., str] | None = None


def add_acts(
    blueprint: Blueprint,
    path: str,
    acts: list[Act[_Shown]],
    *,
    back: Callable[..., str],
    show: Callable[..., _Shown] = lambda _session, **_names: None,  # type: ignore[assignment]
    values: Callable[[_Shown], Mapping[str, object]] = lambda _shown: {},
    afterwards: Sequence[Callable[[], None]] = (),
) -> None:
    """Add a view for each act below `path`.

    `show` returns what the act is about, and raises if the operator may not see it. It and `back`, which
    returns the page to go back to, get the arguments of the view by name. Texts have these and `values`.
    """

    def view_of(it: Act[_Shown]) -> Callable[..., Response]:
        def view(**names: Any) -> Response:
            form, known = it.form(), dict(names)

            def preview(session: Session) -> Preview:
                shown = show(session, **names)
                known.update(values(shown))
                if request.method == "GET":
                    for field, value in it.starts_with(shown).items():
                        form[field].data = value
                number = it.number(shown)
                sentence = it.sentence(shown) if callable(it.sentence) else it.sentence
                return Preview(
                    title=_(it.title, **known),
                    sentence=_write(sentence, number, known),
                    button=_write(it.button, number, known),
                    back=back(**names),
                    is_dangerous=it.is_dangerous,
                    is_empty=it.is_empty(shown),
                    facts=(*it.facts(shown), *it.more_facts(session, **names)),
                )

            def perform(session: Session) -> Done:
                given = form.values()
                it.do(session, **names, **given)
                location = it.leads_to(**names, **given) if it.leads_to else None
                return Done(_(it.done, **known | given), location)

            return act(form, preview, perform, afterwards=afterwards)

        return view

    for it in acts:
        blueprint.add_url_rule(f"{path}{it.path or it.name}/", it.name, view_of(it), methods=["GET", "POST"])


def _write(text: str | tuple[str, str], number: int, values: Mapping[str, Any]) -> str:
    return _(text, **values) if isinstance(text, str) else ngettext(*text, number, **values)


@dataclass(frozen=True, slots=True)
class _Page:
    form: ActionForm
    preview: Callable[[Session], Preview]
    template: str
    has_effects: bool

    def show(
        self, status: int, *, error: errors.ServiceError | None = None, effects: Facts | None = None
    ) -> Response:
        others = self.form.take(error) if error is not None else []
        with resources().Session.begin() as session:
            shown = self.preview(session)
        text = render_template(
            self.template,
            form=self.form,
            preview=shown,
            faults=[*self.form.list_faults(), *others],
            has_effects=self.has_effects,
            effects=effects,
            seen=_digest(effects) if effects is not None else None,
        )
        return make_response(text, status)


def _keyed(form: ActionForm) -> KeyedRequest:
    """Return the submission of a form. Its token is the key, and it can only be repeated in its session."""
    token = str(UUID(str(form.form_token.data)))
    given = [it for it in request.form.items(multi=True) if it[0] not in ("csrf_token", "seen", "show")]
    sent = repr((current_session().id, request.full_path, sorted(given)))
    return KeyedRequest(None, "console", token, sha256(sent.encode("utf-8", "replace")).digest())


def _find_earlier(form: ActionForm) -> KeptAnswer | None:
    try:
        with autocommit(resources().Session) as connection:
            found = find_answer(connection, _keyed(form))
    except errors.IdempotencyKeyReusedError:
        message = _("This form was already sent, with other values or in another session. Open it again.")
        raise errors.InvalidError(message) from None
    return found if isinstance(found, KeptAnswer) else None


def _digest(effects: Facts) -> str:
    return sha256(repr([(str(name), str(value)) for name, value in effects]).encode()).hexdigest()


def _go(answer: KeptAnswer, afterwards: Sequence[Callable[[], None]]) -> Response:
    for call in afterwards:
        call()
    flash(answer.body.decode(), "done")
    return redirect(answer.headers["Location"], 303)

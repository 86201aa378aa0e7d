"""Acts that are one call of a service, one sentence and one message: rows of tables.

An act that needs an `if` is a view of its own, with `acting.act`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flask import Blueprint
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service.blueprints.console.acting import ActionForm, Done, Facts, Preview, act
from migration_service.blueprints.console.languages import gettext, ngettext

_Shown = TypeVar("_Shown")


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
                number = it.number(shown)
                sentence = it.sentence(shown) if callable(it.sentence) else it.sentence
                return Preview(
                    title=gettext(it.title, **known),
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
                return Done(gettext(it.done, **known | given), location)

            return act(form, preview, perform, afterwards=afterwards)

        return view

    for it in acts:
        place = f"{path}{it.path or it.name}/"
        blueprint.add_url_rule(place, it.name, view_of(it), methods=["GET", "POST"])


def _write(text: str | tuple[str, str], number: int, values: Mapping[str, Any]) -> str:
    return gettext(text, **values) if isinstance(text, str) else ngettext(*text, number, **values)

"""Acts that are one call of a service, one sentence and one message: rows of tables.

An act that needs an `if` is a view of its own, with `acting.act`.
"""

from collections.abc import Callable, Mapping
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

    #: The name of the view.
    name: str
    title: str
    #: What will be done: a sentence, its forms for one thing and for several, or what returns one of both.
    sentence: str | tuple[str, str] | Callable[[_Shown], str | tuple[str, str]]
    button: str | tuple[str, str]
    done: str
    #: Does it. It gets the arguments of the view by name.
    do: Callable[..., object]
    #: The number for the sentence and the button.
    number: Callable[[_Shown], int] = lambda _shown: 0
    facts: Callable[[_Shown], Facts] = lambda _shown: ()
    #: Facts that have to be read.
    more_facts: Callable[..., Facts] = lambda _session, **_names: ()
    is_dangerous: bool = False
    #: Whether it cannot be done now, as the sentence says, so that there is no button.
    is_empty: Callable[[_Shown], bool] = lambda _shown: False


def add_acts(
    blueprint: Blueprint,
    path: str,
    acts: list[Act[_Shown]],
    *,
    show: Callable[..., _Shown],
    back: Callable[..., str],
    values: Callable[[_Shown], Mapping[str, object]] = lambda _shown: {},
    feeds: bool = False,
) -> None:
    """Add a view for each act, at `path` with `{}` for its name.

    `show` returns what the act is about, and raises if the operator may not see it. It and `back`, which
    returns the page to go back to, get the arguments of the view by name. Texts have these and `values`.
    """

    def view_of(it: Act[_Shown]) -> Callable[..., Response]:
        def view(**names: Any) -> Response:
            known = dict(names)

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
                it.do(session, **names)
                return Done(gettext(it.done, **known))

            return act(ActionForm(), preview, perform, feeds=feeds)

        return view

    for it in acts:
        blueprint.add_url_rule(path.format(it.name), it.name, view_of(it), methods=["GET", "POST"])


def _write(text: str | tuple[str, str], number: int, values: Mapping[str, Any]) -> str:
    return gettext(text, **values) if isinstance(text, str) else ngettext(*text, number, **values)

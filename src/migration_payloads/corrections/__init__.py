"""Corrections: what would make a finding disappear, and how sure that is. No I/O.

catalogue.py    CORRECTIONS, suggest, add_suggestions: what the service and the client's command use
fixing.py       fix_account, apply: round after round, what somebody accepts
correction.py   the decorator that makes a function a correction
place.py        the value at fault and what is around it
values.py texts.py words.py               errors of fields
customers.py supply.py periods.py money.py  findings of rules

A new correction is a function `name_of_the_kind(place)` in the module of its subject, decorated with
`@corrects` and the codes. Its name and its docstring are shown to suppliers. It looks at nothing but the
payload, so it does the same for every later book. What it returns must make the finding disappear without a
new one. A test applies it to the examples in `tests/unit/payloads/examples/corrected.ndjson`.
"""

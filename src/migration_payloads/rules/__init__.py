"""Rules: validations across the fields of an account. No I/O, no Flask, no database.

catalogue.py    RULES, RULES_VERSION, check_account: what the rest of the service uses
rule.py         Finding, Severity, and the decorator that makes a function a rule
account.py      lists of the account's parts, made once, so that no rule has to walk the payload again
customers.py                              the account and its customers
addresses.py agreements.py meters.py periods.py   supply
names.py dates.py open_lists.py           texts, days and words wherever they are
ledgers.py transactions.py statements.py   money
gs1.py balances.py                        pure functions that other parts use as well

A new rule is a function `code_of_the_rule(account)` in the module of its subject, decorated with `@rule`. The
catalogue finds it, and a test fails until there is an example that breaks it.
"""

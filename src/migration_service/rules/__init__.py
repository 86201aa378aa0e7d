"""Rules: what is wrong with an account, all of it, at once. No I/O, no Flask, no database.

catalogue.py    RULES, RULES_VERSION, check_account: what the rest of the service uses
rule.py         Finding, Severity, Profile, and the decorator that makes a function a rule
account.py      the account taken apart once, so that no rule has to walk the payload again
billing.py customers.py                   the account
addresses.py agreements.py meters.py periods.py   supply
ledgers.py transactions.py line_items.py statements.py   money
gs1.py postcodes.py balances.py           pure functions that other parts use as well

A new rule is a function `code_of_the_rule(account)` in the module where it belongs, decorated with `@rule`:
the catalogue finds it by itself, and its test asks for an example that breaks it.
"""

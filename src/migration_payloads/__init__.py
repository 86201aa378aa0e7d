"""What an account payload may be: its schemas, its rules and their codes, and files of payloads.

The service and the client's commands both use it. It does no I/O but reading the files that it is given, and
needs marshmallow, msgspec and phonenumbers only.

validation.py   validate_account, validate_text: schema and rules together
schemas/        the fields of an account, and reading and writing its JSON
rules/          validations across fields, one small function each
corrections/    what would make a finding disappear, one small function each
files/          NDJSON, its format and its totals, certificates, and what commands write
"""

"""What `migration-client convert` does: flat files become payloads, as a mapping says.

mapping.py   what a mapping says
reading.py   reads it from TOML, and refuses what it cannot say
template.py  writes an empty one
values.py    the cells of a row become a value
tables.py    reads CSV, and finds what is wrong with a row
store.py     all rows in a temporary database, by their keys
assembly.py  joins rows into accounts
problems.py  what does not map
"""

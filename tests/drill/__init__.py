"""The drill: parts of the running service are killed, frozen and wiped under load.

Then the accounts are checked. make drill ARGS="--rounds 20 --seed 7"

`scene` starts the service and prepares its database. `clients` are the suppliers. `faults` has the faults,
and `poison` the account that kills its workers. `count` checks what must be true at the end.
"""

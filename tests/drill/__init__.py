"""The drill: the real service under load while its parts are killed, frozen and wiped; then it is counted.

    make drill ARGS="--rounds 20 --seed 7"

`scene` starts the service and prepares its database, `clients` are the suppliers, `faults` is what is done
to the service, `poison` the account that kills whoever touches it, `count` what must be true at the end.
"""

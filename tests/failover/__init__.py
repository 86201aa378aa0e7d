"""The failover drill: the service on several hosts, whose databases, brokers and networks fail under load.

make failover-drill ARGS="--rounds 3 --only primary"

Every host is a network namespace. `namespaces` makes them, `cluster` (etcd, Patroni), `sentinels` and
`hosts` (with HAProxy) start what runs there, and `scenarios` are the faults. The suppliers are `drill`'s.
"""

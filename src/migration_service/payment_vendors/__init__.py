"""Payment vendors, each with an adapter that implements a small protocol (sections 2.8 and 4.11).

Call `factory.get_vendor` to get a vendor. `protocol` defines the interface of an adapter. `factory` has the
adapters, which use `connection`, `addresses` and `breaker`.
"""

"""Payment vendors: one adapter for each, behind a small protocol (sections 2.8 and 4.11).

Call `factory.get_vendor` to get a vendor. `protocol` defines what an adapter must do. `http` and `stripe` are
the adapters, and `connection`, `addresses`, `deadlines` and `breaker` are what they are built on.
"""

"""Payment vendors, each with an adapter (sections 2.8 and 4.11).

Call `factory.get_vendor` to get a vendor, as `protocol` describes it. `factory` has the adapters, which use
`connection`, `addresses` and `breaker`.
"""

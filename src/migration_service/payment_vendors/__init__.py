"""Payment vendors: one adapter each behind a small protocol (sections 2.8 and 4.11).

`factory.get_vendor` is the way in; `protocol` has what an adapter promises; `http` and `stripe` are the
adapters; `connection`, `addresses`, `deadlines` and `breaker` are what they stand on; `sandbox` is a vendor
for trials.
"""

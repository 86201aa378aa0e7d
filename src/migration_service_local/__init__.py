"""The whole service on one machine, for trials: servers from wheels, sample accounts, a sandbox vendor.

The product, `migration_service`, never imports this package.
"""

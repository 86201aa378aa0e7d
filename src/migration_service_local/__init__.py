"""The whole service on one machine, and what shows it: servers from wheels, samples, a sandbox vendor.

The product, `migration_service`, never imports this package.
"""

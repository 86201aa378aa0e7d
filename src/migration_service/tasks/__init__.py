"""Celery tasks: each opens a transaction and calls a service. Messages carry ids, never data."""

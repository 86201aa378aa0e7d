"""Celery tasks. Each opens a transaction and calls a service. Messages have ids, never data."""

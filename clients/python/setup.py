"""Builds the client as `setup.cfg` says, if it is whole."""

from pathlib import Path

from setuptools import setup

if not (Path(__file__).parent / "src/migration_service_client/models.py").exists():
    raise SystemExit("A part of the client is made from the service's description: `make client` builds it.")
setup()

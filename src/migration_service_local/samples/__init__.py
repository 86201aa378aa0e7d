"""Sample books of invented accounts, for the demonstration, the tests and the benchmarks."""

from migration_service_local.samples.books import generate_accounts, write_lines
from migration_service_local.samples.faults import FAULTS, break_account

__all__ = ["FAULTS", "break_account", "generate_accounts", "write_lines"]

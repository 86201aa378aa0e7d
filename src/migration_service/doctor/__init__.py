"""The checks of every part of the running service, for `migration-service doctor` and the console."""

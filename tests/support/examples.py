"""How many examples tests generate: by day the same few at each run, at night others, and many more."""

import os

#: How many times as many examples as by day, from `MIGRATION_SERVICE_FUZZ`, which `make night` sets.
TIMES = int(os.environ.get("MIGRATION_SERVICE_FUZZ", "1"))

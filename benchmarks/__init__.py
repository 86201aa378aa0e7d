"""How fast the service is, beside what people would otherwise use: `make bench`."""

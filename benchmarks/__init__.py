"""How fast the service is, compared with the usual alternatives: `make bench`."""

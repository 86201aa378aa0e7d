"""marshmallow schemas of everything the interface takes and gives; no database, no network."""

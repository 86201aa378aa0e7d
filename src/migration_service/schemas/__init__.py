"""marshmallow schemas of everything that the interface accepts and returns. No database, no network."""

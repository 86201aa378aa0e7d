"""The marshmallow schemas of requests and responses. They use neither the database nor the network."""

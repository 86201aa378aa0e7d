"""Adapters for the places to which events are sent: `http` for URLs, `rabbitmq` for queues."""

"""Sending what is recorded: events to webhooks, and messages to people."""

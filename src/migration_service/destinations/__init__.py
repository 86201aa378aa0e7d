"""The adapter for URLs to which events are sent."""

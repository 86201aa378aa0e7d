"""Webhooks: events sent to the endpoints of an organisation.

`endpoints` and `secrets` are what people set up. The trigger of the table `event` writes a delivery for each
endpoint that wants an event. `outbox` takes those that are due, posts them, and records what came of them,
when `services.deliveries.sender` asks it to. `deliveries` lists them and sends them again.
"""

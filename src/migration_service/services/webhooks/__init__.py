"""Webhooks: events sent to the endpoints of an organisation.

`endpoints` and `secrets` are what people set up. The trigger of the table `event` writes a delivery for each
endpoint that wants an event. `claims` takes deliveries that are due and records what came of them, each in a
short transaction, and `sender` sends them in between. `deliveries` lists them and sends them again.
"""

"""The error of a service that cannot start on this machine."""


class StartError(Exception):
    """The service cannot start. The message tells the person at the terminal why, and what to do."""

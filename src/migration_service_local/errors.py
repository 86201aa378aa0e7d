"""What keeps the service from starting on this machine."""


class StartError(Exception):
    """The message says, for the person at the terminal, what is wrong and what to do."""

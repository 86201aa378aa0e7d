"""The error of a service that cannot start on this machine."""


class StartError(Exception):
    """The message says, for the person at the terminal, what is wrong and what to do."""

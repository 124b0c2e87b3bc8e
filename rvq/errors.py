"""The failure that a command explains to its user."""


class CommandError(Exception):
    """A command can't do what it was asked to; the text says why, and what to do."""

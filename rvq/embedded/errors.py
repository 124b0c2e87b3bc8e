"""The exception of the embedded PostgreSQL."""


class EmbeddedError(Exception):
    """The embedded PostgreSQL can't be found, made, started or stopped; the text says why and what to do."""

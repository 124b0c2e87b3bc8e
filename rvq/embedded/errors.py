"""The one exception of this package."""


class EmbeddedError(Exception):
    """The embedded PostgreSQL can't be found, made, started or stopped; the text says why and what to do."""

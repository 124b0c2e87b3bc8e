"""The dispatcher's own fixtures: the suite runs its senders."""

from tests.dispatcher.conftest import authority, make_sender

__all__ = ["authority", "make_sender"]

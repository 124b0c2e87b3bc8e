"""What a worker and a runner say to each other, and the pipe's framing.

The worker sends READY twice, with what to prepare and what to load, then WORK, STOP (the work under way) and
QUIT. The runner sends READY or FAILED once, then an ANSWER for each WORK. An answer is no pickle and names
its lease: what writes to the pipe by accident can't pass for the runner.
"""

from collections.abc import Iterator

from .._outcome import Outcome

WORK, STOP, QUIT = b"W", b"S", b"Q"
READY, FAILED, ANSWER = b"R", b"F", b"A"
SUCCEEDED, STOPPED, NOT_SUCCEEDED = b"+", b"0", b"-"
MAX_BYTES = 8 * 1024 * 1024  # in a message to the worker; more is no message, but something else in the pipe


class Garbled(Exception):
    """What came is no message, or not the one that is due."""


def frame(kind: bytes, data: bytes = b"") -> bytes:
    return (len(data) + 1).to_bytes(4, "big") + kind + data


def frames(received: bytearray, most: int) -> Iterator[tuple[bytes, bytes]]:
    """Cut all complete messages off the start of what was received. Raises Garbled."""
    while len(received) >= 4:
        size = int.from_bytes(received[:4], "big")
        if not 1 <= size <= most:
            raise Garbled(f"{size} bytes announced")
        if len(received) < 4 + size:
            return
        kind, data = bytes(received[4:5]), bytes(received[5 : 4 + size])
        del received[: 4 + size]
        yield kind, data


def answer(lease_token: str, outcome: Outcome | None) -> bytes:
    """Return the message that reports an outcome (None: the handler stopped on request)."""
    how = STOPPED if outcome is None else SUCCEEDED if outcome.succeeded else NOT_SUCCEEDED
    document = b"" if outcome is None else outcome.document
    return frame(ANSWER, b"%b\n%b%b" % (lease_token.encode(), how, document))


def outcome_of(kind: bytes, data: bytes, lease_token: str) -> Outcome | None:
    """Return what an answer reports. Raises Garbled unless it is the answer for this lease."""
    token, _, rest = data.partition(b"\n")
    how, document = rest[:1], rest[1:]
    if kind != ANSWER or token != lease_token.encode() or how not in (SUCCEEDED, STOPPED, NOT_SUCCEEDED):
        raise Garbled("an answer for something else")
    return None if how == STOPPED else Outcome(how == SUCCEEDED, document)

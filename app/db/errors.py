"""What a failed database call means to its caller.

    DatabaseError            every failure that the caller can only wait out
      DatabaseUnavailable    unreachable, starting, stopping, read-only, or full
        DatabaseReadOnly     this node takes no writes; another one may
        DatabaseNotStoring   its disk is full or fails, or commits wait in vain for a standby
        AnswerLost           the statement was sent, and no answer came
        ClockOutOfRange      its clock shows a day that ids can't say
        DatabaseUnfit        it can't be used as it is set up: waiting alone does not help
      PoolExhausted          the budget of connections is used up
      StatementTimeout       a statement or lock timeout
      OutcomeUnknown         the call failed, and may have been carried out
      TransactionConflict    a deadlock or a serialization failure: never expected, never retried here

Anything else (a constraint, a missing partition, an error of ours) stays psycopg2's own exception.
"""

from __future__ import annotations

import psycopg2


class DatabaseError(Exception):
    """The call failed through no fault of its own; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class DatabaseUnavailable(DatabaseError):
    """The database can't be reached, or takes no writes."""


class DatabaseReadOnly(DatabaseUnavailable):
    """The connection leads to a node that takes no writes: a standby, or one that is fenced off."""


class DatabaseNotStoring(DatabaseUnavailable):
    """The database stores nothing at the moment; reads may work. Nothing was changed."""


class AnswerLost(DatabaseUnavailable):
    """The statement was sent, and no answer came: if it writes, nobody knows whether it did."""


class ClockOutOfRange(DatabaseUnavailable):
    """The database's clock shows a day that ids can't say."""


class DatabaseUnfit(DatabaseUnavailable):
    """The database can't be used as it is set up; the text says what to change."""


class PoolExhausted(DatabaseError):
    """All connections are in use, and enough callers wait already."""


class StatementTimeout(DatabaseError):
    """The statement took too long, or waited too long for a lock, and changed nothing."""


class OutcomeUnknown(DatabaseError):
    """The call failed, but nothing proves that it was not carried out."""


class TransactionConflict(DatabaseError):
    """PostgreSQL ended the transaction to resolve a deadlock or a serialization failure."""


# SQLSTATE, or its first two characters (a class).
MEANINGS: dict[str, type[DatabaseError]] = {
    "08": DatabaseUnavailable,  # connection exception
    "53": DatabaseUnavailable,  # too many connections, out of memory
    "53100": DatabaseNotStoring,  # disk full
    "58": DatabaseUnavailable,  # system error
    "58030": DatabaseNotStoring,  # input/output error
    "57P01": DatabaseUnavailable,  # admin shutdown
    "57P02": DatabaseUnavailable,  # crash shutdown
    "57P03": DatabaseUnavailable,  # cannot connect now
    "57P05": DatabaseUnavailable,  # idle session timeout
    "25P03": DatabaseUnavailable,  # idle in transaction timeout
    "25006": DatabaseReadOnly,
    "42501": DatabaseUnfit,  # insufficient privilege: see FORBIDDEN
    "57014": StatementTimeout,  # query canceled
    "55P03": StatementTimeout,  # lock not available
    "40P01": TransactionConflict,
    "40001": TransactionConflict,
    "RQ001": ClockOutOfRange,  # raised by rvq.require_day
}
FORBIDDEN = "42501"
GRANT = "grant what is missing: as the schema's owner, rvq migrate --grant api=ROLE --grant dispatcher=ROLE"
# What a standby says to a few other statements: not supported, not in this state, an error of its own.
ON_A_STANDBY = ("0A000", "55000", "XX000")


def translate(error: psycopg2.Error, *, was_sent: bool = False) -> Exception:
    """Return one of our errors, or the error itself. The text is the server's first line, never a URL.

    `was_sent`: the connection was there, and the statement may have reached the server.
    """
    code = error.pgcode
    if code is None:
        # No SQLSTATE: the connection failed, or was lost before a response came.
        gone = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
        lost = AnswerLost if was_sent else DatabaseUnavailable
        return lost("no answer from the database") if gone else error
    meaning = MEANINGS.get(code) or MEANINGS.get(code[:2])
    if meaning is None and code in ON_A_STANDBY and _came_from_standby(error):
        meaning = DatabaseReadOnly
    text = f"{error.diag.message_primary} ({code})"
    if code == FORBIDDEN:
        text += f". What to do: {GRANT}"
    return meaning(text) if meaning else error


def _came_from_standby(error: psycopg2.Error) -> bool:
    """Return whether the server has said, as it does unasked since version 14, that it is in recovery."""
    cursor = error.cursor
    return cursor is not None and cursor.connection.info.parameter_status("in_hot_standby") == "on"

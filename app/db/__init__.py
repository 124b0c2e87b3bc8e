"""Access to PostgreSQL: connections, their pool, errors, migrations, and calls that share a statement."""

from app.db.connection import Connection, connect
from app.db.errors import (
    DatabaseError,
    DatabaseNotStoring,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DatabaseUnfit,
    PoolExhausted,
    StatementTimeout,
    TransactionConflict,
)
from app.db.pool import Pool, Row
from app.db.write_check import COMMIT_MARK

__all__ = [
    "COMMIT_MARK",
    "Connection",
    "DatabaseError",
    "DatabaseNotStoring",
    "DatabaseReadOnly",
    "DatabaseUnavailable",
    "DatabaseUnfit",
    "Pool",
    "PoolExhausted",
    "Row",
    "StatementTimeout",
    "TransactionConflict",
    "connect",
]

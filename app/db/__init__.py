"""Access to PostgreSQL: connections, their pool, errors, migrations, and calls that share a statement."""

from app.db.connection import Connection, connect
from app.db.errors import (
    DatabaseError,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DatabaseUnfit,
    PoolExhausted,
    StatementTimeout,
    TransactionConflict,
)
from app.db.pool import Pool, Row

__all__ = [
    "Connection",
    "DatabaseError",
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

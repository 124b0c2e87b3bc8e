"""Access to PostgreSQL: connections, their pool, errors, migrations, and calls that share a statement."""

from app.db.connection import Connection, connect
from app.db.errors import (
    DatabaseError,
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
    "DatabaseUnavailable",
    "DatabaseUnfit",
    "Pool",
    "PoolExhausted",
    "Row",
    "StatementTimeout",
    "TransactionConflict",
    "connect",
]

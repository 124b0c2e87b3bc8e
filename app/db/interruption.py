"""How a call that takes too long is ended: cancelled, then cut off, then watched until its backend is gone.

A cancel also ends the wait of a commit for a standby, which no timeout does. Where even that does not help,
the server is frozen or out of reach: the caller is let go, and the backend may live on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
import threading
from functools import cache
from pathlib import Path

from psycopg2 import _psycopg

from app.db.connection import Connection

# States of our end of a TCP stream in which the other end has not closed its own (linux/tcp_states.h).
ESTABLISHED, FIN_WAIT1, FIN_WAIT2 = 1, 4, 5


class Interruption:
    """What is done to the call on one connection. It must be made, and cancel, while the connection is there.

    `cut_off` and `is_gone` go on working when it is closed.
    """

    def __init__(self, connection: Connection) -> None:
        """Raise psycopg2's error or OSError if the connection has ended already."""
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._pid = connection.info.backend_pid

    def cancel(self) -> None:
        """Ask the server to cancel the call; wait for nothing.

        The request goes over a socket of its own and takes no place among the server's connections.
        psycopg2's cancel() would hold the interpreter's lock until the server, which may be frozen, responds.
        """
        handle = _libpq().PQgetCancel(self._connection.pgconn_ptr)
        if handle:
            threading.Thread(target=_send_cancel, args=(handle,), name="cancel", daemon=True).start()

    def cut_off(self) -> None:
        """Make the call fail now: libpq waits without a limit of its own, until the stream ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def is_gone(self) -> bool:
        """Return whether the server's process has ended, once the connection was closed or cut off.

        Where the kernel can't tell, as on other systems than Linux, it is taken for gone.
        """
        if sys.platform != "linux":
            return True
        if self._socket.family == socket.AF_UNIX:
            return not _has_child(_peer_of(self._socket), self._pid)
        state = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return state not in (ESTABLISHED, FIN_WAIT1, FIN_WAIT2)

    def close(self) -> None:
        self._socket.close()


def _send_cancel(handle: int) -> None:
    message = ctypes.create_string_buffer(256)
    _libpq().PQcancel(handle, message, len(message))
    _libpq().PQfreeCancel(handle)


@cache
def _libpq() -> ctypes.CDLL:
    """Return the libpq that psycopg2 is linked to, with the functions that cancel."""
    library = ctypes.CDLL(_psycopg.__file__)
    library.PQgetCancel.restype = ctypes.c_void_p
    library.PQgetCancel.argtypes = [ctypes.c_void_p]
    library.PQcancel.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    library.PQfreeCancel.argtypes = [ctypes.c_void_p]
    return library


def _peer_of(stream: socket.socket) -> int:
    """Return the process that listens at the other end of a Unix socket: the postmaster."""
    pid, _, _ = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def _has_child(parent: int, pid: int) -> bool:
    """Return whether `pid` is a living child of `parent`; both are as this process sees them."""
    try:
        state, ppid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return int(ppid) == parent and state != "Z"

"""The paths of files that are not Python, in a checkout and in an installed package alike."""

from __future__ import annotations

import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sql_folder() -> Path:
    """Return the folder of migrations and functions; `sql` is installed beside `app`."""
    return ROOT / "sql"


def gunicorn_config() -> Path:
    """Return the path of gunicorn.conf.py: at the top of a checkout, else where setup.cfg installs it."""
    path = ROOT / "gunicorn.conf.py"
    return path if path.exists() else Path(sysconfig.get_path("data")) / "share/rvq" / path.name

"""Where the files are that are not Python, in a checkout and in an installed package alike."""

from __future__ import annotations

import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sql_folder() -> Path:
    """`migrations/` and `functions/`; `sql` is installed beside `app`."""
    return ROOT / "sql"


def gunicorn_config() -> Path:
    """`gunicorn.conf.py`: at the top of a checkout, else where setup.cfg installs it."""
    in_checkout = ROOT / "gunicorn.conf.py"
    return (
        in_checkout
        if in_checkout.exists()
        else Path(sysconfig.get_path("data")) / "share/rvq" / in_checkout.name
    )

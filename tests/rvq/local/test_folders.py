"""Where data is kept, for accounts as odd as they come."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pytest

from rvq.embedded import EmbeddedError
from rvq.embedded.account import is_own_folder, server_account
from rvq.local.folders import default_folder

T = TypeVar("T")
NAMELESS = 54321
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another account")


def as_account(uid: int, call: Callable[[], T], **environ: str) -> T:
    """Call it in a process of another account, with no environment but this."""
    with ProcessPoolExecutor(
        1, mp_context=get_context("fork"), initializer=_become, initargs=(uid, environ)
    ) as pool:
        return pool.submit(call).result(60)


def _become(uid: int, environ: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    server_account.cache_clear()
    tempfile.tempdir = None  # it was remembered from our own environment


@only_root
def test_an_account_without_a_name_and_a_home_keeps_data_in_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as shared, tempfile.TemporaryDirectory() as here:
        for folder in map(Path, (shared, here)):
            folder.chmod(0o777)
        monkeypatch.chdir(here)
        found = as_account(NAMELESS, default_folder, TMPDIR=shared)
        assert (found.parent, found.stat().st_uid) == (Path(shared), NAMELESS)
        assert list(Path(here).iterdir()) == [], "no folder named ~"


@only_root
def test_an_account_without_a_name_is_told_that_postgresql_needs_one() -> None:
    with pytest.raises(EmbeddedError, match=f"an account without a name: .* user id {NAMELESS}"):
        as_account(NAMELESS, server_account)


@only_root
@pytest.mark.parametrize("relative", ["", "relative", "~"])
def test_a_data_home_that_is_not_absolute_counts_as_none(relative: str) -> None:
    with tempfile.TemporaryDirectory() as home:  # not below pytest's own folder, which is root's alone
        os.chown(home, NAMELESS, NAMELESS)
        found = as_account(NAMELESS, default_folder, HOME=home, XDG_DATA_HOME=relative)
        assert found == Path(home) / ".local/share/rvq"


def test_a_link_that_somebody_else_put_there_is_no_folder_of_ours(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_own_folder(tmp_path)
    assert not is_own_folder(tmp_path / "link")


@only_root
def test_a_folder_of_somebody_else_is_no_folder_of_ours(tmp_path: Path) -> None:
    os.chown(tmp_path, NAMELESS, NAMELESS)
    assert not is_own_folder(tmp_path)

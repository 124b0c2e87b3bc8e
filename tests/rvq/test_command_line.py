"""The command line: its failures are messages, its keys are private, its folders are locked."""

from __future__ import annotations

import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from app.settings import load_settings
from rvq.__main__ import main
from rvq.errors import CommandError
from rvq.local.credentials import local_credentials, write_private
from rvq.local.folders import children_lock, only_one


def test_migrate_brings_an_empty_database_up_to_date_and_says_so(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APP_DATABASE_URL", empty_database)
    assert main(["migrate"]) == 0
    assert "applied 0001_" in capsys.readouterr().out
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out == "the schema is up to date\n"


def test_wrong_settings_are_listed_and_the_status_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("APP_DATABASE_URL", raising=False)
    monkeypatch.setenv("APP_ADMIN_TOKEN", "short")
    assert main(["migrate"]) == 1
    shown = capsys.readouterr().err
    assert "APP_DATABASE_URL: not set" in shown
    assert "APP_ADMIN_TOKEN: token 1 is shorter" in shown


def test_a_database_that_is_away_is_a_message_without_the_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APP_DATABASE_URL", "postgresql://rvq:secret-word@127.0.0.1:1/rvq")
    assert main(["migrate"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rvq: ")
    assert "secret-word" not in shown


def test_without_a_command_it_exits_with_two_and_the_usage() -> None:
    run = subprocess.run([sys.executable, "-m", "rvq.__main__"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "usage: rvq" in run.stderr


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"rvq {version('rvq')}\n"


def test_local_credentials_are_made_once_private_and_valid(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    made = local_credentials(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert local_credentials(file) == made
    assert local_credentials(tmp_path / "other.env") != made
    load_settings({"APP_DATABASE_URL": "postgresql:///rvq", **made})


def test_a_private_file_is_read_by_a_shell_as_it_was_meant(tmp_path: Path) -> None:
    value = 'it\'s $HOME "quoted" `id` \\ and = more'
    write_private(tmp_path / "environment", {"ODD": value})
    shell = subprocess.run(
        ["/bin/sh", "-c", '. "$1"; printf %s "$ODD"', "sh", tmp_path / "environment"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout == value
    assert local_credentials(tmp_path / "environment") == {"ODD": value}


def test_a_second_stack_in_one_folder_is_refused(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(CommandError, match=r"runs in .* already"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass


def test_children_of_an_earlier_stack_are_waited_for_and_then_given_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvq.local.folders.CHILDREN_END_SECONDS", 0.1)
    with children_lock(tmp_path) as descriptor:
        child = subprocess.Popen(["sleep", "1000"], pass_fds=[descriptor])
    try:
        with pytest.raises(CommandError, match="do not end"), children_lock(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()
    with children_lock(tmp_path):
        pass

"""The units in deploy/systemd, as systemd itself reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.settings.settings import KNOWN_NAMES
from rvq.local.stack import API_MALLOC
from tests.support.source import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
MOST_EXPOSURE = 2.0

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units with a program where theirs is: systemd looks whether it is there."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name in UNITS:
        text = re.sub(r"/opt/rvq/\.venv/bin/\S+", str(program), (FOLDER / name).read_text())
        (tmp_path / name).write_text(
            text.replace("WorkingDirectory=/opt/rvq", f"WorkingDirectory={tmp_path}")
        )
    return tmp_path


def instance(unit: Path) -> Path:
    """A template's unit under an instance's name."""
    if not unit.stem.endswith("@"):
        return unit
    return Path(shutil.copy(unit, unit.with_name(unit.name.replace("@.", "@1."))))


def test_there_is_a_unit_for_each_process() -> None:
    assert UNITS == ["rvq-api.service", "rvq-dispatcher@.service"]


def test_the_api_has_the_same_malloc_as_in_a_local_stack() -> None:
    lines = (FOLDER / "rvq-api.service").read_text().splitlines()
    assert {f"Environment={name}={value}" for name, value in API_MALLOC.items()} <= set(lines)


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with(name: str, installed: Path) -> None:
    verified = analyze("verify", "--recursive-errors=no", instance(installed / name))
    complaints = [line for line in verified.stderr.splitlines() if "rvq" in line]
    assert (verified.returncode, complaints) == (0, [])


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_what_a_break_in_would_be_exposed_to_is_little(name: str, installed: Path) -> None:
    unit = instance(installed / name)
    judged = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSURE * 10:.0f}", unit)
    assert judged.returncode == 0, judged.stdout[-400:] + judged.stderr
    found = re.search(r"exposure level for \S+: ([0-9.]+)", judged.stdout)
    assert found is not None
    assert float(found[1]) < MOST_EXPOSURE


@needs_systemd
def test_a_directive_that_is_misspelt_would_be_found(installed: Path) -> None:
    unit = installed / "rvq-api.service"
    unit.write_text(unit.read_text().replace("PrivateTmp=", "PrivateTemp="))
    assert "PrivateTemp" in analyze("verify", "--recursive-errors=no", unit).stderr


def test_the_dispatcher_is_stopped_no_sooner_than_it_needs() -> None:
    from dispatcher.delivery import Lease
    from dispatcher.outbox.outbox import GRACE

    text = (FOLDER / "rvq-dispatcher@.service").read_text()
    found = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > Lease().attempt + 2 + 2 * GRACE


def test_the_environment_file_names_every_setting_and_nothing_else() -> None:
    names = re.findall(r"^#?([A-Z_]+)=", (FOLDER / "rvq.env").read_text(), re.MULTILINE)
    assert sorted(names) == sorted(KNOWN_NAMES)

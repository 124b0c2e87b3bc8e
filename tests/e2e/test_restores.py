"""What was committed last is lost, by a restore or a fail-over, with API and dispatcher running all the time.

No id comes again for something else, and nobody who reads the feed misses an event without being told.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest

from app.db.migrations import migrate
from app.db.server import record_server
from rvq.embedded import Cluster, throwaway_cluster
from rvq.local.stack import is_ready
from rvq.ports import free_port
from tests.dispatcher.receiver import Receiver
from tests.e2e.partner import Partner, Reader, bodies_by_id
from tests.e2e.rig import PATIENCE, Rvq, running
from tests.support.concurrency import wait_until
from tests.support.server import VERSION


@dataclass
class Site:
    """RVQ over a server of its own, which always listens on the same port."""

    cluster: Cluster
    rvq: Rvq
    port: int

    def execute(self, statement: str, cluster: Cluster | None = None) -> list[tuple[object, ...]]:
        connection = psycopg2.connect((cluster or self.cluster).url("rvq"))
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run one of PostgreSQL's programs."""
        command = [self.cluster.install.program(program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def how(self) -> list[object]:
        """Return how each run of a server began, in their order."""
        return [how for (how,) in self.execute("SELECT how FROM rvq.server_runs ORDER BY first_xid")]

    def wait_ready(self) -> None:
        wait_until(lambda: is_ready(self.rvq.bind), "the API is ready again", PATIENCE)


@pytest.fixture
def site(receiver: Receiver) -> Iterator[Site]:
    port = free_port()
    with throwaway_cluster(version=VERSION, port=port) as cluster:
        cluster.create_database("rvq")
        migrate(cluster.url("rvq"))
        with running(cluster.url("rvq"), receiver.host) as rvq:
            rvq.start_dispatcher()
            yield Site(cluster, rvq, port)


class Story:
    """Tasks before the backup, in the lost tail and after it, and what has to hold in the end."""

    def __init__(self, site: Site, receiver: Receiver) -> None:
        self.site = site
        self.receiver = receiver
        self.partner = Partner(site.rvq, receiver)
        self.early, self.late = Reader(site.rvq), Reader(site.rvq)
        self.before = self.partner.create(20)
        self.partner.finish(self.before)
        (self.unfinished,) = self.partner.create(1)
        for reader in (self.early, self.late):
            reader.wait_for(self.before)

    def lose_what_comes_now(self) -> None:
        """Do what the database will know nothing of; one who reads the feed sees it."""
        self.lost = self.partner.create(30)
        self.partner.finish([*self.lost, self.unfinished])
        self.late.wait_for([*self.lost, self.unfinished])

    def carry_on(self) -> None:
        self.site.wait_ready()
        self.after = self.partner.create(40)
        self.partner.finish([*self.after, self.unfinished])

    def check(self) -> None:
        there = {*self.before, self.unfinished, *self.after}
        assert not {*self.lost} & there
        self.early.wait_for(there)
        assert self.early.told == 0
        assert {self.task_of(self.early, event) for event in self.early.new} == {*self.after, self.unfinished}
        self.late.wait_for(there)
        assert self.late.told == 1
        assert self.late.events == self.early.events
        twice = {event for event, bodies in bodies_by_id(self.receiver).items() if len(bodies) > 1}
        assert twice == set()
        assert {self.task_of(self.late, event) for event in self.late.events} == there
        assert self.site.execute("SELECT count(*) FROM rvq.audit() WHERE counted <> truth") == [(0,)]

    @staticmethod
    def task_of(reader: Reader, event: str) -> str:
        return str(reader.events[event]["data"]["task_id"])


@pytest.mark.slow
@pytest.mark.versions
def test_a_data_folder_that_is_copied_back_repeats_no_id_and_tells_who_saw_more(
    site: Site, receiver: Receiver
) -> None:
    story = Story(site, receiver)
    site.cluster.stop()
    backup = site.cluster.folder / "backup"
    subprocess.run(["cp", "-a", site.cluster.data, backup], check=True)
    site.cluster.start()
    site.wait_ready()
    story.lose_what_comes_now()
    site.cluster.stop()
    shutil.rmtree(site.cluster.data)
    backup.rename(site.cluster.data)
    site.cluster.start()
    story.carry_on()
    story.check()
    assert site.how() == ["installed", "started"]
    assert record_server(site.cluster.url("rvq")) is None


@pytest.mark.slow
@pytest.mark.versions
def test_a_dump_that_is_restored_into_a_new_cluster_repeats_no_id_and_hands_out_every_event(
    site: Site, receiver: Receiver, tmp_path: Path
) -> None:
    site.execute("DO $$ BEGIN FOR i IN 1 .. 2000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
    story = Story(site, receiver)
    dump = tmp_path / "dump"
    site.run("pg_dump", "-Fc", "-f", dump, site.cluster.url("rvq"))
    story.lose_what_comes_now()
    password = urlsplit(site.cluster.url()).password
    site.cluster.stop()
    with throwaway_cluster(version=VERSION, port=site.port) as new:
        new.create_database("rvq")
        site.run("pg_restore", "--exit-on-error", "-d", new.url("rvq"), dump)
        site.execute(f"ALTER ROLE rvq PASSWORD '{password}'", new)
        (new.folder / "password").write_text(password or "")
        site.cluster = new
        story.carry_on()
        story.check()
        assert site.how() == ["installed", "restored"]
        assert "the database was restored" in (record_server(new.url("rvq")) or "")
        site.rvq.dispatcher.stop()
        site.rvq.api.stop()


@pytest.mark.slow
@pytest.mark.versions
def test_a_standby_that_takes_over_without_the_last_commits_repeats_no_id_and_tells_who_saw_more(
    site: Site, receiver: Receiver
) -> None:
    story = Story(site, receiver)
    standby = standby_of(site)
    story.lose_what_comes_now()
    site.cluster.stop(deadline_seconds=0)
    standby.start()
    try:
        site.execute("SELECT pg_promote()", standby)
        site.cluster = standby
        story.carry_on()
        story.check()
        assert site.how() == ["installed", "promoted"]
        assert "a standby of the database took over" in (record_server(standby.url("rvq")) or "")
    finally:
        standby.stop()


def standby_of(site: Site) -> Cluster:
    """Make a standby that has everything up to now, and is not started: it is behind from then on."""
    folder = site.cluster.folder.with_name("standby")
    folder.mkdir()
    where = ("-h", site.cluster.folder / "socket", "-p", str(site.port), "-U", "rvq")
    site.run("pg_basebackup", *where, "-D", folder / "data", "-R", "-c", "fast")
    subprocess.run(["chown", "-R", "--reference", site.cluster.data, folder], check=True)
    shutil.copy2(site.cluster.folder / "password", folder)
    return Cluster(folder, version=VERSION, settings=site.cluster.settings, port=site.port)

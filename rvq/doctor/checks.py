"""Each check looks at one thing and says whether it is right; it never raises for what it finds."""

from __future__ import annotations

from collections.abc import Iterator

from app.db import DatabaseUnfit
from app.db.migrations import MigrationError
from app.db.session import PINNED, TIMEOUTS
from app.ids import FIRST_DAY, LAST_DAY, delivery_id, sub_task_id, task_id
from app.settings import Settings, switched_off
from rvq.doctor.finding import Finding, Level, level_of
from rvq.doctor.store import Store

SUPPORTED = range(15, 19)
DAYS_AHEAD = 7
SKEW_SECONDS, SKEW_ADVICE_SECONDS = 30.0, 1.0
DISPATCHER_SECONDS = 30.0
OVERDUE_SECONDS = 60.0
HISTORY_SECONDS = 7 * 86400.0
# Of a commit that a partner was promised; anything else loses work in a crash.
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on"}
STRONGER = {"synchronous_commit": ("on", "remote_write", "remote_apply")}
# As deploy/postgresql/rvq.conf has them, in megabytes, seconds and milliseconds.
WAL_MB, CHECKPOINT_SECONDS = 32 * 1024, 30 * 60
ASKED = [
    *DURABLE,
    "max_wal_size",
    "checkpoint_timeout",
    "idle_in_transaction_session_timeout",
    "max_connections",
    "superuser_reserved_connections",
    "reserved_connections",
]


def of_settings(settings: Settings) -> Iterator[Finding]:
    """Say what is switched off, for it may not be meant; the settings are valid."""
    for line in switched_off(settings):
        yield Finding("advice", "settings", line)
    yield Finding("ok", "settings", "valid")


def of_database(store: Store) -> Iterator[Finding]:
    """Look at version, writability and schema; without a current schema the other checks can't be made."""
    level: Level = "ok" if store.version in SUPPORTED else "wrong"
    yield Finding(level, "database", f"PostgreSQL {store.version} (15 to 18 are supported)")
    writable = store.is_writable()
    yield Finding("ok" if writable else "wrong", "database", "writable" if writable else "takes no writes")
    try:
        current = store.schema_is_current()
    except (MigrationError, DatabaseUnfit) as error:
        yield Finding("wrong", "schema", str(error))
        return
    if not current:
        yield Finding("wrong", "schema", "older than this release: run rvq migrate")
    elif newer := store.newer_release():
        text = f"that of release {newer}, beside which this one may run: upgrade what is left"
        yield Finding("advice", "schema", text)
    else:
        yield Finding("ok", "schema", "that of this release")


def of_sessions(store: Store) -> Iterator[Finding]:
    """Look at what ALTER DATABASE and ALTER ROLE bring along, and whether RVQ's own settings arrive."""
    brought = {name: value for name, value in store.brought_along().items() if not name.startswith("rvq.")}
    ours = set(TIMEOUTS) | set(PINNED) | {"client_encoding"}
    pinned = sorted(ours & set(brought))
    if pinned:
        yield Finding("ok", "sessions", f"set by ALTER, and overridden by RVQ's own: {', '.join(pinned)}")
    for name in sorted(set(brought) - ours - set(DURABLE)):
        yield Finding(
            "advice", "sessions", f"{name} = {brought[name]} is set by ALTER DATABASE or ALTER ROLE"
        )
    found = store.settings([*TIMEOUTS])
    lost = [name for name, value in TIMEOUTS.items() if found[name][0] != str(value)]
    if lost:
        text = f"{', '.join(lost)}: not what RVQ asks for; a pooler drops `options`, so set them on the role"
        level: Level = "wrong" if any(found[name][0] == "0" for name in lost) else "advice"
        yield Finding(level, "sessions", text)


def of_clock(store: Store) -> Iterator[Finding]:
    """Compare the clocks: signatures carry this machine's time, leases the database's."""
    skew = store.skew()
    off = max(0.0, abs(skew.seconds) - skew.uncertain)
    yield Finding(
        level_of(off, SKEW_ADVICE_SECONDS, SKEW_SECONDS),
        "clock",
        f"the database's is {off:.1f} s off this machine's",
    )
    if abs(skew.moved) > 1:
        yield Finding("wrong", "clock", f"rvq.clock_offset moves it by {skew.moved:.0f} s: that is for tests")
    if not skew.has_ids:
        text = f"it shows {skew.day}: tasks can be created from {FIRST_DAY} to {LAST_DAY} only"
        yield Finding("wrong", "clock", text)


def of_connections(store: Store, settings: Settings) -> Iterator[Finding]:
    """Look whether one API and one dispatcher fit in beside everybody else who is there now."""
    numbers = {name: int(store.settings([name]).get(name, ("0", None))[0]) for name in ASKED[-3:]}
    room = numbers["max_connections"] - sum(numbers[name] for name in ASKED[-2:])
    needed = settings.db_pool + settings.dispatcher_db_pool
    others = store.connections_of_others()
    text = f"{needed} for the API and one dispatcher, {others} of others, room for {room}"
    yield Finding(level_of(needed, room - others, room), "connections", text)


def of_configuration(store: Store) -> Iterator[Finding]:
    """Compare PostgreSQL's settings with deploy/postgresql/rvq.conf."""
    found = store.settings(ASKED)
    for name, wanted in DURABLE.items():
        if found[name][0] not in STRONGER.get(name, (wanted,)):
            yield Finding("wrong", "postgresql", f"{name} is {found[name][0]}, must be {wanted}")
    wal, timeout = int(found["max_wal_size"][0]), int(found["checkpoint_timeout"][0])
    if wal < WAL_MB:
        yield Finding(
            "advice", "postgresql", f"max_wal_size is {wal} MB: {WAL_MB} keep checkpoints out of the way"
        )
    if timeout < CHECKPOINT_SECONDS:
        text = f"checkpoint_timeout is {timeout} s: {CHECKPOINT_SECONDS} make them rarer"
        yield Finding("advice", "postgresql", text)
    if found["idle_in_transaction_session_timeout"][0] == "0":
        text = "idle_in_transaction_session_timeout is off: a forgotten transaction keeps vacuum from working"
        yield Finding("advice", "postgresql", text)
    yield Finding("ok", "postgresql", f"max_wal_size {wal} MB, checkpoint_timeout {timeout} s")


def of_partitions(store: Store) -> Iterator[Finding]:
    days = store.days_with_partitions(DAYS_AHEAD)
    level: Level = "wrong" if days < 2 else "advice" if days < DAYS_AHEAD else "ok"
    yield Finding(level, "partitions", f"there for {days} of {DAYS_AHEAD + 1} days, today included")


def of_history(store: Store) -> Iterator[Finding]:
    """Look whether what was committed last may have been lost of late."""
    run = store.last_run()
    if run is None or not run.is_this:
        yield Finding("advice", "history", "this start of the server is not recorded yet: run rvq migrate")
        return
    lost = run.how in ("restored", "promoted") and run.seconds_ago < HISTORY_SECONDS
    text = f"{run.how} at {run.began_at} UTC" + lost * ": what was committed last may be missing"
    yield Finding("advice" if lost else "ok", "history", text)


def of_retention(store: Store, settings: Settings) -> Iterator[Finding]:
    """Name the days that retention would have dropped, were it not for something open."""
    days = store.open_days(settings.retention_days)
    if not days:
        yield Finding("ok", "retention", f"nothing open is older than {settings.retention_days} days")
        return
    first = days[0]
    why = "is open" if first.is_open else "has a pending webhook"
    text = f"{len(days)} days past retention are kept, since {first.day}: {task_id(first.task_id)} {why}"
    yield Finding("advice", "retention", text)


def of_damage(store: Store) -> Iterator[Finding]:
    """Name what a claim found damaged and set aside."""
    for kind, reason, count, first in store.set_aside():
        name = sub_task_id(first) if kind == "sub_task" else delivery_id(first)
        yield Finding("advice", "damage", f"{count} of kind {kind} were ended: {reason}, for example {name}")


def of_vacuum(store: Store) -> Iterator[Finding]:
    """Compare with the bounds of admission control: beyond them create refuses."""
    admission = store.admission()
    if admission is None:
        text = "rvq.admission has lost its row: INSERT INTO rvq.admission DEFAULT VALUES"
        yield Finding("wrong", "admission", text)
        return
    if admission.refusal:
        yield Finding("wrong", "admission", f"create refuses: {admission.refusal}")
    bound = admission.max_transaction_age
    holders = store.horizon_holders() or [(0.0, "nothing holds vacuum back")]
    for number, (age, holder) in enumerate(holders):
        level = level_of(age, bound / 4, bound)
        if number == 0 or level != "ok":
            text = f"{age:.0f} s, the bound is {bound:.0f} ({holder})"
            yield Finding(level, "oldest transaction", text)
    dead, most = store.dead_tuples(), admission.max_dead_tuples
    text = f"{dead} in the tables of open work, the bound is {most}"
    yield Finding(level_of(dead, most / 4, most), "dead tuples", text)


def of_dispatcher(store: Store) -> Iterator[Finding]:
    """Look when a dispatcher last did its maintenance: the database keeps that of admission."""
    admission = store.admission()
    ago = admission.checked_ago if admission else None
    if ago is None:
        text = "none has ever run on this database: nothing expires, nothing is sent"
        yield Finding("wrong", "dispatcher", text)
    elif abs(ago) > DISPATCHER_SECONDS:
        since = f"for {ago:.0f} s" if ago > 0 else "since the database's clock was set back"
        text = f"none has done its maintenance {since}: is any running?"
        yield Finding("wrong", "dispatcher", text)
    else:
        yield Finding("ok", "dispatcher", f"one did its maintenance {max(0.0, ago):.0f} s ago")
    overdue = store.overdue_delivery()
    if overdue is not None and overdue > OVERDUE_SECONDS:
        yield Finding("advice", "deliveries", f"one waits since {overdue:.0f} s at a host that answers")


def of_counters(store: Store) -> Iterator[Finding]:
    drift = store.drift()
    if drift is None:
        yield Finding("advice", "counters", "too much history to count in a minute: rvq admin audit")
    elif drift:
        shown = "; ".join(f"{queue}.{counter} is {n}, not {truth}" for queue, counter, n, truth in drift[:5])
        yield Finding(
            "wrong", "counters", f"{len(drift)} differ from the truth ({shown}): rvq admin audit --repair"
        )
    else:
        yield Finding("ok", "counters", "equal to the truth")

"""Whether each role may do what its part does, and no more (see app/db/rights.py)."""

from __future__ import annotations

from collections.abc import Iterator

from app.db.rights import PARTS, describe, lacking, missing
from rvq.doctor.finding import Finding
from rvq.doctor.store import Store


def of_roles(store: Store) -> Iterator[Finding]:
    """Look at the roles that were granted something, and at the one that the doctor is connected as."""
    role, is_superuser, is_owner = store.session_role()
    granted = store.granted_roles()
    if is_superuser:
        yield Finding("advice", "rights", f"{role} is a superuser: RVQ needs no more than to own its schema")
    elif not is_owner and role not in granted:
        yield from _of_stranger(store, role)
    elif is_owner:
        yield Finding("ok", "rights", f"{role} owns the schema")
    for name, parts in granted.items():
        yield from _of_granted(store, name, parts)
    for name in {role, *(name for name, parts in granted.items() if "dispatcher" in parts)}:
        if not store.may_read_statistics(name):
            text = f"what sessions of other roles do is hidden from {name}: GRANT pg_read_all_stats TO {name}"
            yield Finding("advice", "statistics", text)


def _of_stranger(store: Store, role: str) -> Iterator[Finding]:
    """Say which parts a role can do that nobody told us about."""
    lacks = {part: lacking(store.rights(role, [part])) for part in PARTS}
    able = [part for part, rights in lacks.items() if not rights]
    if able:
        yield Finding("ok", "rights", f"{role} may do what {' and '.join(able)} do")
        return
    for part, rights in lacks.items():
        text = f"{role} can't be the {part}'s, it lacks {describe(rights)}: rvq migrate --grant {part}={role}"
        yield Finding("wrong", "rights", text)


def _of_granted(store: Store, role: str, parts: list[str]) -> Iterator[Finding]:
    rights = store.rights(role, parts)
    part = " and ".join(parts)
    if lacks := missing(rights):
        yield Finding("wrong", "rights", f"{part}: {role} lacks {describe(lacks)}: rvq migrate --grant")
    elif excess := [right for right in rights if right.is_held and not right.is_wanted]:
        yield Finding("advice", "rights", f"{part}: {role} has more than it needs: {describe(excess)}")
    else:
        yield Finding("ok", "rights", f"{part}: {role} has what it needs")
    if store.may_act_as_owner(role):
        text = f"{part}: {role} may act as the schema's owner, so nothing is kept from it"
        yield Finding("advice", "rights", text)

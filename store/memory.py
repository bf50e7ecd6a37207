"""The memory store: entries of a namespace, what they said before, and one commit for each key."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, delete, func, insert, literal, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from domain import digest, errors
from domain import memory as rules
from domain.memory import Entry, Kind, Source, Trust
from store.database import Database
from store.schema import ledger, memory, memory_commits, memory_versions

LARGEST_ID = 2**31 - 1
# What these give back was written by nobody else; `recall` is worth what its entries are.
QUIET = {"remember", "forget", "recall", "propose_plan"}
_HAS_INDEX = text("SELECT 1 FROM sqlite_master WHERE name = 'memory_words'")
_SQLITE_MATCH = text("memory.id IN (SELECT rowid FROM memory_words WHERE memory_words MATCH :wanted)")
_POSTGRES_MATCH = text("array_to_tsvector(string_to_array(memory.words, ' ')) @@ CAST(:wanted AS tsquery)")


class Fact(NamedTuple):
    """What is to be remembered. updates, version: the entry that it contradicts, as it was read."""

    scope: str
    text: str
    kind: Kind
    source: Source
    trust: Trust
    updates: int | None = None
    version: int | None = None
    expires: datetime | None = None


class Memory:
    """The memory of one namespace of the server; `scope` is a namespace of memory in it."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def remember(self, key: str, now: datetime, fact: Fact) -> dict[str, Any]:
        """Store it, or change the entry that it updates; an `errors.ToolFailed` says why not, and what to do.

        The same key gives the same answer again; with other arguments it is an `errors.ArgumentsChanged`.
        """
        asked = {
            "scope": fact.scope,
            "text": fact.text,
            "kind": fact.kind,
            "said_by": fact.source.said_by,
            "updates": fact.updates,
            "version": fact.version,
        }
        async with self._database.transaction(key, self._lock(fact.scope)) as connection:
            if known := await self._known(connection, key, "remember", asked):
                answer: dict[str, Any] = known.answer
                return answer
            if why := rules.objection(fact.scope, fact.text, fact.source.said_by):
                raise errors.ToolFailed(f"{why} Nothing was stored.")
            answer = await self._store(connection, now, fact)
            await self._commit(connection, key, now, fact.source.run_id, "remember", asked, answer)
            return answer

    async def recall(
        self, key: str, run_id: str, now: datetime, *, scope: str, query: str = "", limit: int = rules.MOST_RECALLED
    ) -> dict[str, Any]:
        """The entries that fit best, as quotes; they count as used now, and are reviewed when they would be anyway."""
        asked = {"scope": scope, "query": query, "limit": limit}
        async with self._database.transaction(key, self._lock(scope)) as connection:
            if known := await self._known(connection, key, "recall", asked):
                return _told(await self._as_of(connection, known.answer), known.committed_at)
            found = await self._best(connection, now, _valid(scope), query, limit)
            await self._use(connection, now, found)
            refs = [[entry.id, entry.version] for entry in found]
            trust = rules.lowest(entry.trust for entry in found) if found else None
            await self._commit(connection, key, now, run_id, "recall", asked, refs, trust)
            return _told(found, now)

    async def forget(self, key: str, run_id: str | None, now: datetime, *, scope: str, entry_id: int) -> dict[str, Any]:
        """Take an entry out; a person can put it back until its grace is over."""
        asked = {"scope": scope, "entry_id": entry_id}
        async with self._database.transaction(key, self._lock(scope)) as connection:
            if known := await self._known(connection, key, "forget", asked):
                answer: dict[str, Any] = known.answer
                return answer
            entry = await self._live(connection, now, _valid(scope), entry_id)
            await self._write(connection, entry.model_copy(update={"ended": now, "ended_as": "forgotten"}))
            answer = {"id": entry.id, "forgotten": True}
            await self._commit(connection, key, now, run_id, "forget", asked, answer)
            return answer

    async def answer(self, key: str) -> Any | None:
        """What a key was answered, if it was committed."""
        async with self._database.reading() as connection:
            known = await self._row(connection, key)
            if known is None or known.operation != "recall":
                return known.answer if known else None
            return _told(await self._as_of(connection, known.answer), known.committed_at)

    async def heard(self, run_id: str, step: int) -> Trust:
        """The lowest trust of what a run has read before a step: what it says now may come from there."""
        model = (ledger.c.namespace == self._namespace) & (ledger.c.run_id == run_id) & (ledger.c.kind == "model")
        mine = (memory_commits.c.namespace == self._namespace) & (memory_commits.c.run_id == run_id)
        async with self._database.reading() as connection:
            answers = (await connection.execute(select(ledger.c.step, ledger.c.result).where(model))).all()
            recalled = (await connection.execute(select(memory_commits.c.trust).where(mine).distinct())).scalars().all()
        earlier = [row for row in answers if row.step < step and row.result]
        if {row.step for row in earlier} != set(range(1, step)) or any(_reads(row.result) for row in earlier):
            return "untrusted"
        return rules.lowest(["trusted", *(trust for trust in recalled if trust)])

    async def entries(self, scope: str | None = None, *, ended: bool = False) -> list[Entry]:
        """Entries of a namespace and those below it, or all; with those that were taken out, if wanted."""
        wanted = select(memory).where(memory.c.namespace == self._namespace)
        if scope is not None:
            below = memory.c.scope.startswith(f"{_valid(scope)}/", autoescape=True)
            wanted = wanted.where(or_(memory.c.scope == scope, below))
        if not ended:
            wanted = wanted.where(memory.c.ended.is_(None))
        async with self._database.reading() as connection:
            rows = (await connection.execute(wanted.order_by(memory.c.scope, memory.c.id))).all()
        return [_entry(row) for row in rows]

    async def show(self, entry_id: int) -> tuple[Entry, list[Entry]]:
        """An entry, and what it was before, oldest first."""
        async with self._database.reading() as connection:
            entry = await self._any(connection, entry_id)
            before = select(memory_versions.c.entry).where(memory_versions.c.entry_id == entry_id)
            found = (await connection.execute(before.order_by(memory_versions.c.version))).scalars().all()
        return entry, [Entry.model_validate(one) for one in found]

    async def edit(
        self,
        entry_id: int,
        now: datetime,
        *,
        text: str | None = None,
        kind: Kind | None = None,
        expires: datetime | None = None,
        version: int | None = None,
    ) -> Entry:
        """What a person says of an entry now; who writes its text anew vouches for it."""
        scope = (await self.show(entry_id))[0].namespace
        async with self._database.transaction(self._lock(scope)) as connection:
            entry = await self._live(connection, now, scope, entry_id)
            if version not in (None, entry.version):
                raise errors.ToolFailed(_moved(entry))
            if text is not None and (why := rules.objection(scope, text, "user")):
                raise errors.ToolFailed(f"{why} Nothing was stored.")
            source = Source(said_by="user") if text is not None else entry.source
            trust: Trust = "trusted" if text is not None else entry.trust
            fact = Fact(scope, text or entry.text, kind or entry.kind, source, trust, expires=expires)
            return await self._change(connection, now, entry, fact, trust)

    async def keep(self, entry_id: int, now: datetime) -> Entry:
        """A person has looked at the entry, and keeps it."""
        scope = (await self.show(entry_id))[0].namespace
        async with self._database.transaction(self._lock(scope)) as connection:
            entry = rules.reviewed(await self._live(connection, now, scope, entry_id), now)
            await self._write(connection, entry)
            return entry

    async def aged(self, now: datetime, after: int, limit: int) -> list[Entry]:
        """Entries with their review or their end behind them, by their ids; as of `_times`."""
        unused = func.coalesce(memory.c.last_used, memory.c.changed) <= now - rules.UNUSED_FOR
        over = or_(memory.c.ended.is_not(None), memory.c.review_after <= now, memory.c.expires <= now, unused)
        async with self._database.reading() as connection:
            return await self._times(connection, over, memory.c.id > after, limit=limit)

    async def expire(self, entry_ids: Collection[int], now: datetime) -> None:
        """Take out those whose end has come; it is done once, however often it is asked for."""
        async with self._held(entry_ids) as (connection, entries):
            for entry in entries:
                if (after := rules.expired(entry, now)) != entry:
                    await self._write(connection, after)

    async def clear(self, entry_ids: Collection[int], now: datetime) -> int:
        """Delete those that nobody can put back any more; how many of all these are no more."""
        async with self._held(entry_ids) as (connection, entries):
            over = [entry.id for entry in entries if rules.is_gone(entry, now)]
            await self._delete(connection, over)
        return len(entry_ids) - len(entries) + len(over)

    async def undo(self, entry_ids: Iterable[int], now: datetime) -> list[Entry]:
        """Put back what was taken out; what is not out is left as it is, and what is deleted is an error."""
        back = []
        for entry_id in entry_ids:
            scope = (await self.show(entry_id))[0].namespace
            async with self._database.transaction(self._lock(scope)) as connection:
                entry = await self._any(connection, entry_id)
                if rules.is_gone(entry, now):
                    raise errors.NotFound(f"entry {entry_id} was taken out more than {rules.GRACE.days} days ago")
                if entry.ended:
                    entry = rules.restored(entry, now)
                    await self._write(connection, entry)
                back.append(entry)
        return back

    async def delete(self, entry_id: int) -> None:
        """Delete an entry with its history, at once and for good."""
        scope = (await self.show(entry_id))[0].namespace
        async with self._database.transaction(self._lock(scope)) as connection:
            await self._delete(connection, [entry_id])

    def _lock(self, scope: str) -> str:
        return f"memory\n{self._namespace}\n{scope}"

    async def _row(self, connection: AsyncConnection, key: str) -> Row[Any] | None:
        wanted = select(memory_commits).where(memory_commits.c.idempotency_key == key)
        return (await connection.execute(wanted)).one_or_none()

    async def _known(
        self, connection: AsyncConnection, key: str, operation: str, asked: dict[str, Any]
    ) -> Row[Any] | None:
        row = await self._row(connection, key)
        if row is not None and (row.operation, row.digest) != (operation, digest.sha256(asked)):
            raise errors.ArgumentsChanged(f"the memory store knows the key {key} with other arguments")
        return row

    async def _commit(
        self,
        connection: AsyncConnection,
        key: str,
        now: datetime,
        run_id: str | None,
        operation: str,
        asked: dict[str, Any],
        answer: Any,
        trust: Trust | None = None,
    ) -> None:
        await connection.execute(
            insert(memory_commits).values(
                idempotency_key=key,
                namespace=self._namespace,
                run_id=run_id,
                operation=operation,
                digest=digest.sha256(asked),
                trust=trust,
                answer=answer,
                committed_at=now,
            )
        )

    async def _store(self, connection: AsyncConnection, now: datetime, fact: Fact) -> dict[str, Any]:
        if fact.updates is not None:
            entry = await self._live(connection, now, fact.scope, fact.updates)
            if fact.version != entry.version:
                raise errors.ToolFailed(_moved(entry))
            entry = await self._change(connection, now, entry, fact, rules.lowest([entry.trust, fact.trust]))
            return _stored(entry, created=False)
        entries = [one for one in await self._of(connection, fact.scope) if rules.is_live(one, now)]
        if known := next((one for one in entries if rules.same(one.text, fact.text)), None):
            return _stored(known, created=False)
        if len(entries) >= rules.MOST_ENTRIES:
            raise errors.ToolFailed(
                f"{fact.scope!r} holds {rules.MOST_ENTRIES} entries, and no more fit. "
                "Forget what is no longer needed, or update an entry. Nothing was stored."
            )
        return _stored(await self._insert(connection, now, fact), created=True)

    async def _insert(self, connection: AsyncConnection, now: datetime, fact: Fact) -> Entry:
        review_after, expires = rules.terms(fact.trust, now, fact.expires)
        new = {"namespace": self._namespace, "scope": fact.scope, "version": 1, "created": now, "changed": now}
        new |= {"review_after": review_after, "expires": expires, "trust": fact.trust, **_said(fact)}
        return _entry((await connection.execute(insert(memory).values(**new).returning(memory))).one())

    async def _change(
        self, connection: AsyncConnection, now: datetime, entry: Entry, fact: Fact, trust: Trust
    ) -> Entry:
        """The entry says something else from now on; what it said stays in its history."""
        kept = {"entry_id": entry.id, "version": entry.version, "entry": entry.model_dump(mode="json")}
        await connection.execute(insert(memory_versions).values(**kept))
        # The end that distrust had set is not that of a text which a person vouches for.
        lifted = entry.trust == "untrusted" and trust != "untrusted"
        review_after, expires = rules.terms(trust, now, fact.expires or (None if lifted else entry.expires))
        new = {"version": entry.version + 1, "changed": now, "trust": trust, **_said(fact)}
        new |= {"review_after": review_after, "expires": expires}
        changed = update(memory).where(memory.c.id == entry.id, memory.c.version == entry.version).values(**new)
        return _entry((await connection.execute(changed.returning(memory))).one())

    async def _write(self, connection: AsyncConnection, entry: Entry) -> None:
        """What time and people do to an entry, which leaves its text as it is."""
        new = entry.model_dump(include={"last_used", "review_after", "expires", "ended", "ended_as"})
        await connection.execute(update(memory).where(memory.c.id == entry.id).values(**new))

    async def _delete(self, connection: AsyncConnection, entry_ids: Sequence[int]) -> None:
        await connection.execute(delete(memory_versions).where(memory_versions.c.entry_id.in_(entry_ids)))
        await connection.execute(delete(memory).where(memory.c.id.in_(entry_ids)))

    @asynccontextmanager
    async def _held(self, entry_ids: Collection[int]) -> AsyncIterator[tuple[AsyncConnection, list[Entry]]]:
        """Those of these entries that there are, and nobody else changes them meanwhile."""
        these = memory.c.id.in_(entry_ids)
        async with self._database.reading() as connection:
            scopes = {entry.namespace for entry in await self._times(connection, these)}
        async with self._database.transaction(*map(self._lock, sorted(scopes))) as connection:
            yield connection, await self._times(connection, these)

    async def _times(
        self, connection: AsyncConnection, *which: ColumnElement[bool], limit: int | None = None
    ) -> list[Entry]:
        """Entries without what they say: time goes on for them also where nobody has their key."""
        columns = [literal("").label("text"), *(one for one in memory.c if one.name not in ("text", "words"))]
        wanted = select(*columns).where(memory.c.namespace == self._namespace, *which)
        rows = (await connection.execute(wanted.order_by(memory.c.id).limit(limit))).all()
        return [_entry(row) for row in rows]

    async def _of(self, connection: AsyncConnection, scope: str, *more: ColumnElement[bool]) -> list[Entry]:
        mine = (memory.c.namespace == self._namespace) & (memory.c.scope == scope)
        rows = (await connection.execute(select(memory).where(mine, *more).order_by(memory.c.id))).all()
        return [_entry(row) for row in rows]

    async def _any(self, connection: AsyncConnection, entry_id: int) -> Entry:
        mine = (memory.c.namespace == self._namespace) & (memory.c.id == min(entry_id, LARGEST_ID))
        row = (await connection.execute(select(memory).where(mine))).one_or_none()
        if row is None:
            raise errors.NotFound(f"there is no memory {entry_id}; `dayflow memory list` lists those that exist")
        return _entry(row)

    async def _live(self, connection: AsyncConnection, now: datetime, scope: str, entry_id: int) -> Entry:
        found = await self._of(connection, scope, memory.c.id == min(entry_id, LARGEST_ID))
        if not found or not rules.is_live(found[0], now):
            raise errors.ToolFailed(f"{scope!r} has no entry {entry_id}; recall lists those that exist")
        return found[0]

    async def _best(
        self, connection: AsyncConnection, now: datetime, scope: str, query: str, limit: int
    ) -> list[Entry]:
        """The index says which entries hold a word; those that have no words in clear are read one by one."""
        wanted = rules.words(query)
        more: list[ColumnElement[bool]] = [memory.c.ended.is_(None)]
        if wanted and await self._is_indexed(connection):
            more.append(or_(memory.c.words.is_(None), self._match(wanted)))
        live = [(one, None) for one in await self._of(connection, scope, *more) if rules.is_live(one, now)]
        return [entry for entry, _ in rules.best(query, live, limit)]

    async def _is_indexed(self, connection: AsyncConnection) -> bool:
        if self._database.engine.dialect.name == "postgresql":
            return True
        return (await connection.execute(_HAS_INDEX)).scalar() is not None

    def _match(self, wanted: Sequence[str]) -> Any:
        """Entries with a word that begins as one of these; words are letters and digits alone."""
        if self._database.engine.dialect.name == "postgresql":
            return _POSTGRES_MATCH.bindparams(wanted=" | ".join(f"'{word}':*" for word in wanted))
        return _SQLITE_MATCH.bindparams(wanted=" OR ".join(f'"{word}"*' for word in wanted))

    async def _use(self, connection: AsyncConnection, now: datetime, found: Sequence[Entry]) -> None:
        earlier = or_(memory.c.last_used.is_(None), memory.c.last_used < now)
        mine = memory.c.id.in_([entry.id for entry in found])
        await connection.execute(update(memory).where(mine, earlier).values(last_used=now))

    async def _as_of(self, connection: AsyncConnection, refs: Sequence[Sequence[int]]) -> list[Entry]:
        """Entries as they were when they were recalled, less those that are deleted."""
        found = []
        for entry_id, version in refs:
            row = (await connection.execute(select(memory).where(memory.c.id == entry_id))).one_or_none()
            if row is not None and row.version != version:
                key = (memory_versions.c.entry_id == entry_id) & (memory_versions.c.version == version)
                before = (await connection.execute(select(memory_versions.c.entry).where(key))).scalar_one()
                found.append(Entry.model_validate(before))
            elif row is not None:
                found.append(_entry(row))
        return found


def _entry(row: Row[Any]) -> Entry:
    values = row._asdict()
    source = {name: values.pop(name) for name in ("said_by", "run_id", "action_id")}
    return Entry.model_validate({**values, "namespace": row.scope, "source": source})


def _said(fact: Fact) -> dict[str, Any]:
    words = " ".join(rules.words(fact.text))
    return {"text": fact.text, "words": words, "kind": fact.kind, **fact.source.model_dump()}


def _stored(entry: Entry, *, created: bool) -> dict[str, Any]:
    return {"id": entry.id, "version": entry.version, "trust": entry.trust, "created": created}


def _told(entries: Sequence[Entry], now: datetime) -> dict[str, Any]:
    return {"how_to_read": rules.HOW_TO_READ, "entries": [rules.quoted(entry, now) for entry in entries]}


def _moved(entry: Entry) -> str:
    return (
        f"Entry {entry.id} has changed since it was read: it is version {entry.version} now. "
        "Recall it, see whether this still contradicts it, and give that version. Nothing was stored."
    )


def _valid(scope: str) -> str:
    if not rules.is_namespace(scope):
        raise errors.ToolFailed(rules.objection(scope, "", None))
    return scope


def _reads(result: dict[str, Any]) -> bool:
    """Whether an answer of the model called a tool that brings what others wrote."""
    blocks = result.get("content") or []
    return any(block.get("type") == "tool_use" and block.get("name") not in QUIET for block in blocks)

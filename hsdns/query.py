"""The message path: bytes of a query in, bytes of its reply out.

Path: steps 2 to 6, in order, for one listener.  server/transport/udp.py and tcp.py call answer() through eager.start();
a lookup within the server (the target of an ExternalName) calls resolve() and so begins at step 4.
Rule 1: only resolve() calls a chain, and only eager.start() steps it from outside.
Rule 2: no parsing, no socket, no plugin here.
Rule 3: a reply that was read from a store is sent when the answer tables have nothing older (cluster/freshness.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.chain import BlockChoice, Endpoint, Next, Request
from hsdns.fastpath import AnswerTable
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.encode import (
    MAX_TCP_LEN,
    encode,
    encode_badvers,
    encode_in_turns,
    is_big,
    udp_limit,
)
from hsdns.wire.iana import Rcode, RRClass
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import ROOT

log = logging.getLogger("hsdns.query")

SMALL: Final = 4096  # octets; over UDP usually no more fit, which takes half a millisecond
MAX_DEPTH: Final = 8  # lookups nested in lookups: ExternalNames whose targets are in other blocks


# Takes a query: listener, octets, client, protocol, when it came (monotonic seconds), its reply, None if none is sent.
Show = Callable[[str, bytes, Endpoint, str, float, bytes | None], None]


@dataclass(eq=False, kw_only=True)
class QueryProcessor:
    """Answers the queries of one listener.

    `server` is the listener as metrics name it, `blocks` chooses the chain for a query.  `any_class` lets other classes
    than IN through, as CoreDNS does as soon as one block of the listener has `chaos` or `forward`.  `writer` has the
    answer table.  `on_refused` is called with replies that no block made, `on_panic` after a handler raised.
    `stacktrace` logs the whole stack when a handler raises.  `tap` returns what takes the queries that the chain
    answers, None while nothing does.
    `late_watch` says what to wait for before a block is chosen, where filters read the store of a cluster.
    """

    server: str = field(kw_only=False)
    blocks: BlockChoice[Next] = field(kw_only=False)
    any_class: bool = False
    on_refused: Callable[[Request, Reply], None] = lambda request, reply: None
    on_panic: Callable[[], None] = lambda: None
    writer: AnswerTableWriter | None = None
    stacktrace: bool = False
    tap: Callable[[], Show | None] = lambda: None
    late_watch: Callable[[float], Awaitable[None] | None] | None = None

    @property
    def table(self) -> AnswerTable | None:
        """The answer table, where there is one."""
        return self.writer.table if self.writer is not None else None

    @property
    def lookup(self) -> Callable[..., bytes | None] | None:
        """Step 2 for a single query: look it up in the table, if there is one; UDP batches are looked up earlier."""
        return None if self.writer is None else self.writer.table.lookup

    def make(self, wire: bytes, now: float) -> bool:
        """Make a miss a hit without a chain, if possible; `now` in monotonic seconds."""
        return self.writer is not None and self.writer.make(wire, now)

    def known(self, wire: bytes, client: bytes, now: float) -> bytes | None:
        """Answer a query over a stream from the table, or with what is made then; `client` is a socket address."""
        lookup = self.lookup
        found = lookup and lookup(wire, client=client, limit=MAX_TCP_LEN, now=now)
        return found or self.made(wire, client, now)

    def made(self, wire: bytes, client: bytes, now: float) -> bytes | None:
        """Answer a miss of the table over a stream with what is made of it."""
        lookup = self.lookup
        if lookup is None or not self.make(wire, now):
            return None
        return lookup(wire, client=client, limit=MAX_TCP_LEN, now=now)

    def flush(self) -> None:
        """Store the replies in the answer table; to be called when they have been sent."""
        if self.writer is not None:
            self.writer.flush()

    def answer(
        self,
        wire: bytes,
        client: Endpoint,
        local: Endpoint,
        protocol: str,
        now: float,
        more: Callable[[Iterator[bytes]], None] | None = None,
    ) -> Coroutine[Any, Any, bytes | None]:
        """Answer one message that is a miss of the answer table; None means no reply.  `now` in monotonic seconds.

        `more` takes the messages that follow the one returned, where it is the first of several: a zone transfer.
        """
        answering = self._answer(wire, client, local, protocol, now, more)
        show = self.tap()
        if show is None:
            return answering
        return _show(answering, partial(show, self.server, wire, client, protocol, now))

    async def _answer(
        self,
        wire: bytes,
        client: Endpoint,
        local: Endpoint,
        protocol: str,
        now: float,
        more: Callable[[Iterator[bytes]], None] | None,
    ) -> bytes | None:
        writer = self.writer
        # step 3: bytes -> Query, or FORMERR, or nothing
        try:
            query = decode(wire)
        except BadQuery as bad:
            return bad.reply
        dependencies = writer.dependencies() if writer is not None else None
        request = Request(query, client, local, protocol, self.server, ROOT, now, 0, dependencies)
        # queries that do not reach a block
        if query.qclass != RRClass.IN and not self.any_class:
            reply = self._refuse(request)
        elif query.edns is not None and query.edns.version != 0:
            return encode_badvers(query, query.edns)
        else:
            # steps 4 and 5: the block's chain
            reply = await self.resolve(request)
        if dependencies is not None:
            dependencies.settle()
        if reply.dropped:
            return None
        # step 6: Reply -> bytes, within the client's limit
        limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(query, reply)
        if reply.sign is not None or reply.following is not None:
            return self._write(request, reply, limit, more)
        try:
            if limit > SMALL and is_big(reply):
                out = await encode_in_turns(query, reply, limit)
            else:
                out = encode(query, reply, limit)
        except Exception as error:  # a handler made records that cannot be written
            return encode(query, self._recover(request, error), limit)
        if dependencies is not None and (reply.fresh or dependencies.cached is not None):
            assert writer is not None, "or nothing has recorded dependencies"
            writer.enqueue(wire, query, reply, out, dependencies)
        return out

    def _write(
        self,
        request: Request,
        reply: Reply,
        limit: int,
        more: Callable[[Iterator[bytes]], None] | None,
    ) -> bytes:
        """Write a reply that is signed or has several messages; neither is ever stored."""
        query, sign, following = request.query, reply.sign, reply.following
        if sign is not None:
            limit -= sign.room
        if following is not None and more is None:
            reply = reply.replace(tc=True)
        try:
            out = encode(query, reply, limit)
        except Exception as error:  # as above
            following = None
            out = encode(query, self._recover(request, error), limit)
        out = out if sign is None else sign(out)
        if following is not None and more is not None:
            more(_messages(query, reply, following, limit))
        return out

    async def resolve(self, request: Request) -> Reply:
        """Answer with the chain of the block for the name."""
        late = None if self.late_watch is None else self.late_watch(request.now)
        if late is not None:
            await late
        try:
            chosen = self.blocks.choose(request)
        except Exception as error:  # a filter raised it
            return self._recover(request, error)
        if chosen is None:
            return self._refuse(request)
        entered, chain = chosen
        if request.depth > MAX_DEPTH:
            return unwritten(
                Rcode.SERVFAIL,
                f"{request.query.qname.to_text()} leads through more than {MAX_DEPTH} lookups",
            )
        try:
            return await chain(entered)
        except Exception as error:
            return self._recover(request, error)

    def _recover(self, request: Request, error: Exception) -> Reply:
        """Log and count an error of a handler; the query gets SERVFAIL, the server goes on."""
        qname = request.query.qname.to_text()
        if self.stacktrace:
            log.error("recovered from an error in a handler, queried for %s", qname, exc_info=error)
        else:
            log.error(
                "recovered from an error in a handler, queried for %s: %s", qname, _raised(error)
            )
        self.on_panic()
        reply = unwritten(Rcode.SERVFAIL)
        self.on_refused(request, reply)
        return reply

    def _refuse(self, request: Request) -> Reply:
        reply = unwritten(Rcode.REFUSED)
        self.on_refused(request, reply)
        return reply


async def _show(
    answering: Coroutine[Any, Any, bytes | None], add: Callable[[bytes | None], None]
) -> bytes | None:
    reply = await answering
    add(reply)
    return reply


def _messages(
    query: Query, first: Reply, following: Iterator[tuple[RR, ...]], limit: int
) -> Iterator[bytes]:
    """The rest of a reply of several messages, each made when it is needed."""
    sign = first.sign
    for answer in following:
        out = encode(query, Reply(answer=answer, aa=first.aa), limit)
        yield out if sign is None else sign(out)


def _raised(error: Exception) -> str:
    """The exception and its position, in one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        code = trace.tb_frame.f_code
        where = f" ({code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name})"
    return f"{type(error).__name__}: {error}{where}"

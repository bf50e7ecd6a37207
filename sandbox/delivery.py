"""Sending an answer move by move: bytes, pauses, and connections that end as a fault wants it."""

import asyncio
import socket
import struct
from collections.abc import Iterator

from aiohttp import web

from sandbox.faults import Move, Pause, Stop
from sandbox.sse import PING

RESET_DELAY = 0.05


class Broken(Exception):
    """The connection was ended by a fault."""


async def send(request: web.Request, response: web.StreamResponse, moves: Iterator[Move]) -> None:
    """Carry out the moves; headers go out with the first bytes. `Broken` when a move ended the connection early."""
    for move in moves:
        match move:
            case bytes():
                await _write(request, response, move)
            case Pause():
                await _pause(response, move)
            case Stop():
                await _stop(request, response, move)
                raise Broken(move.how)
    await _write(request, response, b"")
    await response.write_eof()


async def _write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    if data and not response.prepared:
        await response.prepare(request)
    if data:
        await response.write(data)


async def _pause(response: web.StreamResponse, pause: Pause) -> None:
    if not pause.pings:
        await asyncio.sleep(pause.seconds)
        return
    until = asyncio.get_running_loop().time() + pause.seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(pause.ping_every, left))
        await response.write(PING)


async def _stop(request: web.Request, response: web.StreamResponse, stop: Stop) -> None:
    if stop.how == "end":
        if not response.prepared:
            await response.prepare(request)
        await response.write_eof()
        return
    transport = request.transport
    if transport is None:
        return
    if stop.how == "reset":
        # A reset throws away what the peer has not read yet; what was sent is meant to arrive.
        await asyncio.sleep(RESET_DELAY if response.prepared else 0)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()

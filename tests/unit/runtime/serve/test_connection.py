"""Connections that begin no request, or never finish one's head, over real sockets."""

import asyncio
import contextlib
import socket

import uvicorn
from starlette.responses import PlainTextResponse

from kvis_runtime.serve.connection import Connection

HERE = PlainTextResponse("here")
REQUEST = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n"


class Impatient(Connection):
    silence_seconds = 0.3
    head_seconds = 0.3


@contextlib.asynccontextmanager
async def a_client(app=HERE):
    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=Impatient, ws="none", lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve([sock]))
    reader, writer = await asyncio.open_connection(*sock.getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        server.should_exit = True
        await serving


async def trickle(writer, data: bytes, seconds: float):
    for byte in data:
        writer.write(bytes([byte]))
        await asyncio.sleep(seconds / len(data))


async def test_a_head_that_trickles_is_408_and_the_connection_closed():
    async with a_client() as (reader, writer):
        trickling = asyncio.create_task(trickle(writer, b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * 200, 10))
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        assert not trickling.done()
        trickling.cancel()


async def test_a_second_head_on_a_connection_is_bounded_too():
    async with a_client() as (reader, writer):
        writer.write(REQUEST)
        assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200 ")
        writer.write(REQUEST[:10])
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_that_says_nothing_is_closed():
    async with a_client() as (reader, _):
        async with asyncio.timeout(5):
            assert await reader.read() == b""


async def test_a_head_in_pieces_within_the_time_is_answered():
    async with a_client() as (reader, writer):
        await trickle(writer, REQUEST, 0.05)
        assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200 ")


async def test_an_answer_may_take_longer_than_a_head():
    async def slowly(scope, receive, send):
        await asyncio.sleep(0.6)
        await HERE(scope, receive, send)

    async with a_client(slowly) as (reader, writer):
        writer.write(REQUEST + REQUEST[:10])  # the next head has begun meanwhile
        assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200 ")


async def test_a_connection_goes_on_after_an_idle_pause_longer_than_a_head_may_take():
    async with a_client() as (reader, writer):
        for pause in (0.6, 0):
            writer.write(REQUEST)
            assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200 ")
            await asyncio.sleep(pause)

"""One port of ours for everything, on aiohttp and on websockets: one_port_client.py HTTP-URL TOKEN FOREIGN-ORIGIN

Prints `ok`, and how many requests went over how many connections.
"""

import asyncio
import itertools
import json
import sys

import aiohttp
import websockets
from websockets.asyncio.client import connect

CALL = {"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}
ANSWER = {"jsonrpc": "2.0", "result": 19, "id": 1}


async def over_aiohttp(url, token, foreign):
    """Each order of the requests on one connection, which becomes a WebSocket at its end."""
    bearer = {"Authorization": f"Bearer {token}"}
    made, reused = [], []
    trace = aiohttp.TraceConfig()

    async def create(*_):
        made.append(1)

    async def reuse(*_):
        reused.append(1)

    trace.on_connection_create_end.append(create)
    trace.on_connection_reuseconn.append(reuse)

    async def posted(session):
        async with session.post(url, json=CALL, headers=bearer) as reply:
            assert (reply.status, await reply.json()) == (200, ANSWER), reply

    async def unknown(session):
        async with session.post(url, json=CALL) as reply:
            await reply.read()
            assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer", reply

    async def healthy(session):
        async with session.get(url + "health") as reply:
            assert (reply.status, await reply.text()) == (200, "ok\n"), reply

    async def evil(session):
        async with session.post(url, json=CALL, headers={**bearer, "Origin": foreign}) as reply:
            await reply.read()
            assert reply.status == 403, reply

    async def closed(session):
        try:
            await session.ws_connect(url)
        except aiohttp.WSServerHandshakeError as error:
            assert error.status == 401, error
        else:
            raise AssertionError("a WebSocket without a token")

    orders = list(itertools.permutations([posted, unknown, healthy, evil]))
    for order in orders:
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
            for step in order:
                await step(session)
            async with session.ws_connect(url, headers=bearer, protocols=["jsonrpc"]) as ws:
                assert ws.protocol == "jsonrpc", ws.protocol
                await ws.send_json(CALL)
                assert await ws.receive_json() == ANSWER
            # The connection ended with its WebSocket; another follows.
            await posted(session)
            await closed(session)
    # One connection for the order and its WebSocket, one after it.
    assert len(reused) >= len(orders) * 4, (len(made), len(reused))
    assert len(made) <= len(orders) * 3, (len(made), len(reused))
    return len(made) + len(reused), len(made)


async def over_websockets(url, token, foreign):
    url = "ws" + url[4:]
    bearer = {"Authorization": f"Bearer {token}"}
    for options in (
            {"additional_headers": bearer},
            {"subprotocols": ["jsonrpc", f"token.{token}"]},
            {"additional_headers": bearer, "subprotocols": ["jsonrpc"]}):
        async with connect(url, **options) as ws:
            await ws.send(json.dumps(CALL))
            assert json.loads(await ws.recv()) == ANSWER
            assert ws.subprotocol == ("jsonrpc" if "subprotocols" in options else None)
    for options, status in (
            ({}, 401), ({"additional_headers": {"Authorization": "Bearer wrong"}}, 401),
            ({"subprotocols": ["jsonrpc", "token.wrong"]}, 401),
            ({"additional_headers": bearer, "origin": foreign}, 403)):
        try:
            async with connect(url, **options):
                raise AssertionError(f"let in: {options}")
        except websockets.exceptions.InvalidStatus as error:
            assert error.response.status_code == status, (options, error)


async def work(url, token, foreign):
    requests, connections = await over_aiohttp(url, token, foreign)
    await over_websockets(url, token, foreign)
    print("ok", requests, connections)


asyncio.run(asyncio.wait_for(work(*sys.argv[1:]), 60))

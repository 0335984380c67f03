"""jsonrpcserver as a server: behind lines on stdio, or behind aiohttp as a web endpoint.

    python jsonrpcserver_peer.py stdio|http

It prints its port for http, where the path is /jsonrpc.
"""

import asyncio
import logging
import sys

from aiohttp import web
from jsonrpcserver import Error, Result, Success, async_dispatch, method

import foreign

logging.disable()
service = foreign.Service()


def offer(name):
    async def run(*args, **kwargs) -> Result:
        try:
            return Success(await getattr(service, name)(kwargs or list(args)))
        except foreign.Failed as failed:
            return Error(failed.code, failed.message, failed.data)
    method(run, name=name)


for one in foreign.METHODS:
    offer(one)


@method
async def add(a, b) -> Result:
    return Success(a + b)


async def endpoint(request):
    answer = await async_dispatch(await request.text())
    return web.Response(text=answer, content_type="application/json") if answer else web.Response(
        status=204)


async def over_http():
    application = web.Application(client_max_size=16 << 20)
    application.router.add_post("/jsonrpc", endpoint)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def over_lines():
    for line in sys.stdin:
        if (answer := await async_dispatch(line)):
            print(answer, flush=True)


asyncio.run({"http": over_http, "stdio": over_lines}[sys.argv[1]]())

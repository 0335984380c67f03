"""pygls's JSON-RPC client: pygls_client.py tcp|ws PORT POINTS… | stdio POINTS… -- COMMAND ARGS…"""

import asyncio
import logging
import os
import sys

from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException

import foreign


def plain(value):
    """The dicts that pygls has turned into named tuples, as dicts again."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class Client:
    def __init__(self, client):
        self.client = client

    async def call(self, method, params, given_up=None):
        future = self.client.protocol.send_request(method, params, msg_id=given_up)
        if given_up:
            await asyncio.sleep(0.05)
            self.client.protocol.notify("$/cancelRequest", {"id": given_up})
        try:
            return plain(await asyncio.wrap_future(future))
        except JsonRpcException as error:
            raise foreign.Failed(error.code, error.message, plain(error.data)) from error

    async def notify(self, method, params):
        self.client.protocol.notify(method, params)

    async def cancelled(self, method, params):
        return await self.call(method, params, given_up="given up")

    def serve(self, method, function):
        self.client.feature(method)(lambda params: function(*params))


async def work():
    kind, *words = sys.argv[1:]
    client = JsonRPCClient()
    if kind == "stdio":
        end = words.index("--")
        points = words[:end]
        await client.start_io(*words[end + 1:])
    else:
        points = words[1:]
        await getattr(client, f"start_{kind}")("127.0.0.1", int(words[0]))
    await foreign.drive(Client(client), points)
    foreign.ok()
    sys.stdout.flush()
    # Its own stop waits for the server to leave first.
    os._exit(0)


if __name__ == "__main__":
    logging.disable()
    asyncio.run(work())

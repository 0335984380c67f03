"""jsonrpc-websocket as a client: jsonrpc_websocket_client.py URL POINTS…"""

import asyncio
import logging
import sys

from jsonrpc_base.jsonrpc import ProtocolError
from jsonrpc_websocket import Server

import foreign

logging.disable()


class Client:
    def __init__(self, server):
        self.server = server

    def say(self, method, params, **more):
        by_name = isinstance(params, dict)
        return getattr(self.server, method)(*([] if by_name else params),
                                            **(params if by_name else {}), **more)

    async def call(self, method, params):
        try:
            return await self.say(method, params)
        except ProtocolError as error:
            code, message, answer = error.args
            raise foreign.Failed(code, message, answer["error"].get("data")) from error

    async def notify(self, method, params):
        await self.say(method, params, _notification=True)

    def serve(self, method, function):
        setattr(self.server, method, function)


async def work():
    server = Server(sys.argv[1], timeout=foreign.TIMEOUT)
    await server.ws_connect()
    await foreign.drive(Client(server), sys.argv[2:])
    await server.close()
    foreign.ok()


asyncio.run(work())

"""aiorpcX as a server: aiorpcx_server.py v1|v2|auto. Prints its port."""

import asyncio
import sys

import aiorpcx
from aiorpcx import JSONRPCAutoDetect, JSONRPCConnection, JSONRPCv1, JSONRPCv2, RPCError, RPCSession

VERSION = {"v1": JSONRPCv1, "v2": JSONRPCv2, "auto": JSONRPCAutoDetect}[sys.argv[1]]


class Session(RPCSession):
    noted = 0

    def default_connection(self):
        return JSONRPCConnection(VERSION)

    async def handle_request(self, request):
        handler = getattr(self, f"on_{request.method}", None)
        return await aiorpcx.handler_invocation(handler, request)()

    async def on_add(self, a, b):
        return a + b

    async def on_echo(self, *args):
        return list(args)

    async def on_fail(self):
        raise RPCError(7, "failed")

    async def on_note(self, *_):
        self.noted += 1

    async def on_noted(self):
        return self.noted

    async def on_ask(self, method):
        return await self.send_request(method, ["q"])

    async def on_burst(self, count):
        for i in range(count):
            await self.send_notification("tick", [i])
        return count


async def main():
    server = await aiorpcx.serve_rs(Session, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())

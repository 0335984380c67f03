"""aiorpcX as a server: aiorpcx_server.py v1|v2|auto. Prints its port."""

import asyncio
import sys

import aiorpcx
from aiorpcx import JSONRPCAutoDetect, JSONRPCConnection, JSONRPCv1, JSONRPCv2, NewlineFramer, RPCError, RPCSession

import foreign

VERSION = {"v1": JSONRPCv1, "v2": JSONRPCv2, "auto": JSONRPCAutoDetect}[sys.argv[1]]
service = foreign.Service()


class Session(RPCSession):
    def default_framer(self):
        # By default it silently drops messages of more than 1 000 000 bytes.
        return NewlineFramer(8_000_000)

    def default_connection(self):
        return JSONRPCConnection(VERSION)

    async def handle_request(self, request):
        if request.method in foreign.METHODS:
            try:
                return await getattr(service, request.method)(request.args)
            except foreign.Failed as failed:
                raise RPCError(failed.code, failed.message) from failed
        handler = getattr(self, f"on_{request.method}", None)
        return await aiorpcx.handler_invocation(handler, request)()

    async def on_callback(self, method, params):
        return await self.send_request(method, params)

    async def on_burst(self, count):
        for i in range(count):
            await self.send_notification("tick", [i])
        return count


async def main():
    server = await aiorpcx.serve_rs(Session, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())

"""aiorpcX as a client of `antiphon-peer server tcp://…`: aiorpcx_client.py v1|v2 PORT POINTS…

Beside the points it checks its error objects, which hold no data, and, with the point `back`, many
callbacks.
"""

import asyncio
import sys

import aiorpcx
from aiorpcx import JSONRPCConnection, JSONRPCv1, JSONRPCv2, NewlineFramer, RPCError, RPCSession

import foreign
from foreign import Failed, same

VERSION = {"v1": JSONRPCv1, "v2": JSONRPCv2}[sys.argv[1]]
POINTS = sys.argv[3:]
told = []


class Session(RPCSession):
    sent_request_timeout = 20
    served = {}

    def default_framer(self):
        # By default it silently drops messages of more than 1 000 000 bytes.
        return NewlineFramer(8_000_000)

    def default_connection(self):
        return JSONRPCConnection(VERSION)

    async def handle_request(self, request):
        if request.method == "tick":
            told.append(request.args[0])
        elif request.method == "refuse":
            raise RPCError(77, "no")
        elif request.method in self.served:
            return self.served[request.method](*request.args)
        else:
            return await aiorpcx.handler_invocation(None, request)()


class Client:
    def __init__(self, session):
        self.session = session

    async def call(self, method, params):
        try:
            return await self.session.send_request(method, params)
        except RPCError as error:
            raise Failed(error.code, error.message) from error

    async def notify(self, method, params):
        await self.session.send_notification(method, params)

    async def batch(self, items):
        async with self.session.send_batch() as batch:
            for item in items:
                add = batch.add_notification if item.get("notify") else batch.add_request
                add(item["method"], item["params"])
        return batch.results

    def serve(self, method, function):
        self.session.served[method] = function


async def code_of(call):
    return (await foreign.error_of(call)).code


async def errors(client):
    same(await code_of(client.call("nope", [])), -32601)
    same(await code_of(client.call("sum", ["x"])), -32602)
    same(await code_of(client.call("crash", [])), -32603)
    if VERSION is JSONRPCv2:
        failed = await foreign.error_of(client.call("fail", foreign.FAILURE))
        same((failed.code, failed.message), (7, "failed"))


async def callbacks(client):
    same(await client.call("emit", [4]), 4)
    for _ in range(500):
        if len(told) == 4:
            break
        await asyncio.sleep(0.01)
    same(told, [0, 1, 2, 3])
    same(await code_of(client.call("callback", ["refuse", []])), 77)
    same(await code_of(client.call("callback", ["unknown", []])), -32601)
    client.serve("mirror", lambda i: i)
    several = [client.call("callback", ["mirror", [i]]) for i in range(64)]
    same(await asyncio.gather(*several), list(range(64)))


async def work():
    async with aiorpcx.connect_rs("127.0.0.1", int(sys.argv[2]), session_factory=Session) as session:
        client = Client(session)
        await foreign.drive(client, POINTS)
        await errors(client)
        if "back" in POINTS:
            await callbacks(client)
    foreign.ok()


asyncio.run(work())

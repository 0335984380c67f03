"""aiorpcX as a client of `antiphon-peer server tcp://…`: aiorpcx_client.py v1|v2 PORT [ask]

With `ask` it only asks, for a server whose own calls and notifications it cannot read.
"""

import asyncio
import sys

import aiorpcx
from aiorpcx import JSONRPCConnection, JSONRPCv1, JSONRPCv2, RPCError, RPCSession

VERSION = {"v1": JSONRPCv1, "v2": JSONRPCv2}[sys.argv[1]]
told = []
checked = 0


def same(a, b):
    global checked
    assert a == b, (a, b)
    checked += 1


class Session(RPCSession):
    sent_request_timeout = 10

    def default_connection(self):
        return JSONRPCConnection(VERSION)

    async def handle_request(self, request):
        if request.method == "tick":
            told.append(request.args[0])
        elif request.method == "who":
            return ["me", *request.args]
        elif request.method == "refuse":
            raise RPCError(77, "no")
        else:
            return await aiorpcx.handler_invocation(None, request)()


async def code_of(call):
    try:
        await call
    except RPCError as error:
        return error.code
    raise AssertionError("no error came")


async def answer_back(session):
    same(await session.send_request("emit", [4]), 4)
    for _ in range(100):
        if len(told) == 4:
            break
        await asyncio.sleep(0.01)
    same(told, [0, 1, 2, 3])
    same(await session.send_request("callback", ["who", [5]]), ["me", 5])
    same(await code_of(session.send_request("callback", ["refuse", []])), 77)
    same(await code_of(session.send_request("callback", ["unknown", []])), -32601)
    several = [session.send_request("callback", ["who", [i]]) for i in range(64)]
    same(await asyncio.gather(*several), [["me", i] for i in range(64)])


async def work():
    async with aiorpcx.connect_rs("127.0.0.1", int(sys.argv[2]), session_factory=Session) as session:
        same(await session.send_request("subtract", [42, 23]), 19)
        same(await session.send_request("get_data"), ["hello", 5])
        same(await session.send_request("echo", [None, "€😀", 1.5]), [None, "€😀", 1.5])
        same(await code_of(session.send_request("nope")), -32601)
        same(await code_of(session.send_request("sum", ["x"])), -32602)
        same(await code_of(session.send_request("crash")), -32603)
        await session.send_notification("update", [1])
        await session.send_notification("notify_hello", [2])
        same(await session.send_request("count"), 2)
        if sys.argv[3:] != ["ask"]:
            await answer_back(session)
        slow = asyncio.create_task(session.send_request("sleep", [200]))
        same(await session.send_request("net_version"), "31337")
        same(await slow, "slept")
        if VERSION is JSONRPCv2:
            same(await session.send_request("subtract", {"minuend": 5, "subtrahend": 3}), 2)
            async with session.send_batch() as batch:
                batch.add_request("sum", [1, 2])
                batch.add_notification("update", [1])
                batch.add_request("nope")
                batch.add_request("count")
            same((batch.results[0], batch.results[1].code, batch.results[2]), (3, -32601, 3))
    print("ok", checked)


asyncio.run(asyncio.wait_for(work(), 20))

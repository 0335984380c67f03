"""Flows in both directions on websockets, without a JSON-RPC library: flows_client.py URL"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect

NEXT, CANCEL = ("kotlinx.rpc.jsonrpc.internal." + name for name in ("nextFlowValue", "cancelFlow"))
COMPLETED = {"code": -32001, "message": "Flow completed"}


async def hear(ws, wanted):
    got = json.loads(await asyncio.wait_for(ws.recv(), 10))
    assert json.dumps(got, sort_keys=True) == json.dumps(wanted, sort_keys=True), f"{got} instead of {wanted}"


async def say(ws, **message):
    await ws.send(json.dumps({"jsonrpc": "2.0", **message}))


async def ask(ws, method, params, **end):
    await say(ws, method=method, params=params, id=method)
    await hear(ws, {"jsonrpc": "2.0", **end, "id": method})


async def produce(ws, first, ends):
    """Answers the server's pulls of flow 7, which have ids from `first` on."""
    await say(ws, method="sum_flow", params=[7], id="sum")
    for number, end in enumerate(ends, first):
        await hear(ws, {"jsonrpc": "2.0", "method": NEXT, "params": [7], "id": number})
        await say(ws, **end, id=number)


async def work(url):
    async with connect(url) as ws:
        # Pulled item by item, to its end.
        await ask(ws, "count_to", [3], result=1)
        for item in (1, 2, 3):
            await ask(ws, NEXT, [1], result=item)
        for _ in range(2):
            await ask(ws, NEXT, [1], error=COMPLETED)
        # Cancelled early, and twice.
        await ask(ws, "count_to", {"end": 1000}, result=2)
        await ask(ws, NEXT, {"flow": 2}, result=1)
        for _ in range(2):
            await ask(ws, CANCEL, [2], result=None)
        await ask(ws, NEXT, [9], error={"code": -32602, "message": "Unknown flow"})
        # A flow in the other direction, to its end, and one that fails.
        await produce(ws, 1, [{"result": 20}, {"result": 22}, {"error": COMPLETED}])
        await hear(ws, {"jsonrpc": "2.0", "result": 42, "id": "sum"})
        failed = {"code": 1001, "message": "no more"}
        await produce(ws, 4, [{"result": 1}, {"error": failed}])
        await hear(ws, {"jsonrpc": "2.0", "error": failed, "id": "sum"})
        await ask(ws, "sum_flow", ["7"], error={"code": -32602, "message": "Invalid params"})

asyncio.run(asyncio.wait_for(work(sys.argv[1]), 25))
print("ok")

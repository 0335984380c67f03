"""The durable run of EXA-07 on websockets, without a JSON-RPC library: durable_client.py URL"""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import connect

OWN = {"subscription_id": "order-processor-1", "topic": "orders"}
NAME, TOPIC = OWN.values()
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def hear(ws, wanted, has_time=False):
    got = json.loads(await asyncio.wait_for(ws.recv(), 10))
    assert not has_time or TIME.fullmatch(got["params"].pop("timestamp")), got
    assert json.dumps(got, sort_keys=True) == json.dumps(wanted, sort_keys=True), f"{got} instead of {wanted}"


async def message(ws, sequence, data):
    params = {**OWN, "sequence_id": sequence, "data": data}
    await hear(ws, {"jsonrpc": "2.0", "method": "rpc.notification.persistent", "params": params}, True)


async def ask(ws, method, params, **end):
    await ws.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": method}))
    await hear(ws, {"jsonrpc": "2.0", **end, "id": method})


async def work(url):
    subscribe, acknowledge = "rpc.subscribe.persistent", "rpc.acknowledge.persistent"
    orders = [{"order_id": f"ORD-{i}", "total": 99.5, "note": "é€"} for i in range(4)]
    async with connect(url) as publisher:
        async with connect(url) as ws:
            await ask(ws, subscribe, OWN, result={**OWN, "resumed_from_sequence": 0})
            for i in (1, 2, 3):
                await ask(publisher, "publish_durable", [TOPIC, orders[i]], result=i)
                await message(ws, i, orders[i])
            await ask(ws, acknowledge, {"subscription_id": NAME, "sequence_id": 1}, result={"acknowledged": True})
            await ask(ws, acknowledge, [NAME, 3], result={"acknowledged": True})
            ws.transport.abort()
        async with connect(url) as ws, connect(url) as other:
            await ask(ws, subscribe, [NAME, TOPIC], result={**OWN, "resumed_from_sequence": 1})
            await message(ws, 2, orders[2])
            both = {"subscriptions": [OWN, {"subscription_id": "shipping-1", "topic": "shipments"}]}
            await ask(ws, f"{subscribe}.batch", both, result={"subscriptions": [
                {"subscription_id": name, "resumed_from_sequence": at} for name, at in ((NAME, 1), ("shipping-1", 0))]})
            await message(ws, 2, orders[2])
            acks = [{"subscription_id": name, "sequence_id": i} for name, i in ((NAME, 2), ("shipping-1", 7), ("nobody", 1))]
            await ask(ws, f"{acknowledge}.batch", {"acknowledgments": acks}, result={"acknowledged": [
                {**ack, "success": ack["subscription_id"] == NAME} for ack in acks]})
            await ask(other, subscribe, OWN, result={**OWN, "resumed_from_sequence": 3})
            why = {"code": -32602, "message": "Invalid params", "data": "this connection is not attached to the subscription"}
            await ask(ws, acknowledge, [NAME, 3], error=why)
            for was in (True, False):
                await ask(other, "rpc.unsubscribe.persistent", [NAME], result={"unsubscribed": was})

asyncio.run(asyncio.wait_for(work(sys.argv[1]), 25))
print("ok")

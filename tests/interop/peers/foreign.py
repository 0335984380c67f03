"""The points of ../checklist.py for foreign clients in Python, and the methods for foreign servers.

A client is an object with coroutines: `call(method, params)` gives the result or raises `Failed`,
`notify(method, params)`, and, where the library has them, `batch(items)` (a result or
an error for each item that is no notification), `cancelled(method, params)` (raises like `call`) and
`serve(method, function)`.
"""

import asyncio
import concurrent.futures

TEXT = "äß€😀" * 100_000
FAILURE = {"code": 7, "message": "failed", "data": {"x": [1, "é€"]}}
TIMEOUT = 25


class Failed(Exception):
    """An error object."""

    def __init__(self, code, message, data=None):
        super().__init__(code, message, data)
        self.code, self.message, self.data = code, message, data


def same(got, wanted):
    assert got == wanted, f"{str(got)[:500]} instead of {str(wanted)[:500]}"


async def error_of(call):
    try:
        result = await call
    except Failed as failed:
        return failed
    raise AssertionError(f"a result instead of an error: {result}")


# -- the points

async def position(client):
    same(await client.call("subtract", [42, 23]), 19)


async def name(client):
    same(await client.call("subtract", {"subtrahend": 23, "minuend": 42}), 19)


async def error(client):
    failed = await error_of(client.call("fail", FAILURE))
    same({"code": failed.code, "message": failed.message, "data": failed.data}, FAILURE)
    same((await error_of(client.call("nope", []))).code, -32601)


async def notification(client):
    before = await client.call("count", [])
    for i in range(3):
        await client.notify("update", [i])
    for _ in range(500):
        if await client.call("count", []) == before + 3:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the notifications were not counted")


async def batch(client):
    answers = await client.batch([
        {"method": "subtract", "params": [5, 3]},
        {"method": "update", "params": [1], "notify": True},
        {"method": "nope", "params": []}, {"method": "echo", "params": ["é"]}])
    same([answers[0], answers[1].code, answers[2]], [2, -32601, ["é"]])


async def order(client):
    ended = []

    async def one(place, method, param):
        result = await client.call(method, [param])
        ended.append(place)
        return result

    calls = []
    for i in range(50):
        calls += [one(2 * i, "sleep", 400 - 8 * i), one(2 * i + 1, "echo", i)]
    wanted = []
    for i in range(50):
        wanted += ["slept", [i]]
    same(await asyncio.gather(*calls), wanted)
    assert ended.index(0) > 0, f"answered in the order of the calls: {ended}"


async def text(client):
    same(await client.call("echo", [TEXT]), [TEXT])


async def cancel(client):
    same((await error_of(client.cancelled("sleep", [9000]))).code, -32800)
    same(await client.call("echo", ["after"]), ["after"])


async def back(client):
    client.serve("who", lambda *given: ["me", "é€", *given])
    same((await client.call("callback", ["who", ["q"]]))[:2], ["me", "é€"])

STEPS = {step.__name__: step for step in
         (position, name, error, notification, batch, order, text, cancel, back)}


async def drive(client, points):
    # Enough threads for the 100 calls of `order`, where a library waits in threads.
    asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(110))
    for point in points:
        await asyncio.wait_for(STEPS[point](client), TIMEOUT)
        print("seen", point, flush=True)


def ok():
    print("ok", flush=True)


# -- the methods of tests/peer/README.md; each takes the params as they came

class Service:
    counted = 0

    async def subtract(self, params):
        if isinstance(params, dict):
            params = [params.get("minuend"), params.get("subtrahend")]
        if [type(number) for number in params] not in ([int, int], [float, float]):
            raise Failed(-32602, "Invalid params")
        return params[0] - params[1]

    async def echo(self, params):
        return params

    async def fail(self, params):
        raise Failed(**params)

    async def sleep(self, params):
        await asyncio.sleep(params[0] / 1000)
        return "slept"

    async def update(self, _):
        self.counted += 1

    async def count(self, _):
        return self.counted


METHODS = ("subtract", "echo", "fail", "sleep", "update", "count")

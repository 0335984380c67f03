"""python-lsp-jsonrpc, or its ancestor python-jsonrpc-server, as the client of a server on stdio:

    python pylsp_client.py pylsp_jsonrpc|pyls_jsonrpc POINTS… -- COMMAND ARGS…
"""

import asyncio
import importlib
import os
import subprocess
import sys
import threading
import time

import foreign
from foreign import same

PACKAGE, *words = sys.argv[1:]
POINTS, COMMAND = words[:words.index("--")], words[words.index("--") + 1:]
JsonRpcException = importlib.import_module(f"{PACKAGE}.exceptions").JsonRpcException
streams = importlib.import_module(f"{PACKAGE}.streams")

child = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
threading.Timer(foreign.TIMEOUT, child.kill).start()
writer = streams.JsonRpcStreamWriter(child.stdin)
ticks, served = [], {}
served["tick"] = ticks.append
endpoint = importlib.import_module(f"{PACKAGE}.endpoint").Endpoint(served, writer.write)
reader = threading.Thread(target=streams.JsonRpcStreamReader(child.stdout).listen,
                          args=(endpoint.consume,), daemon=True)
reader.start()


class Client:
    async def call(self, method, params):
        try:
            return await asyncio.wrap_future(endpoint.request(method, params))
        except JsonRpcException as error:
            raise foreign.Failed(error.code, error.message, error.data) from error

    async def notify(self, method, params):
        endpoint.notify(method, params)

    def serve(self, method, function):
        served[method] = lambda params: function(*params)


async def work():
    client = Client()
    await foreign.drive(client, [point for point in POINTS if point != "cancel"])
    same((await foreign.error_of(client.call("crash", None))).code, -32603)
    same(await client.call("emit", [3]), 3)
    same(ticks, [[0], [1], [2]])


asyncio.run(work())
# It cancels by its own string id, with $/cancelRequest. The answer to a cancelled request, which
# LSP prescribes, kills its reading thread: so this comes last, and the server's end tells that the
# nine seconds were not slept.
threading.excepthook = lambda args: None
begin = time.monotonic()
cancelled = endpoint.request("sleep", [9000]).cancel()
child.stdin.close()
same(child.wait(15), 0)
same(cancelled and time.monotonic() - begin < 5, True)
print("seen cancel")
foreign.ok()
os._exit(0)

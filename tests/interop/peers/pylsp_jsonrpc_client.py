"""python-lsp-jsonrpc as the client of a server on stdio: pylsp_jsonrpc_client.py COMMAND ARGS…"""

import os
import subprocess
import sys
import threading
import time

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.exceptions import JsonRpcException
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
threading.Timer(20, child.kill).start()
reader = JsonRpcStreamReader(child.stdout)
writer = JsonRpcStreamWriter(child.stdin)
ticks, checked = [], 0
endpoint = Endpoint({"tick": ticks.append, "who": lambda params: ["me", params]}, writer.write)
threading.Thread(target=reader.listen, args=(endpoint.consume,), daemon=True).start()


def same(a, b):
    global checked
    assert a == b, (a, b)
    checked += 1


def ask(method, params=None):
    return endpoint.request(method, params).result(timeout=10)


def code_of(method, params=None):
    try:
        ask(method, params)
    except JsonRpcException as error:
        return error.code
    raise AssertionError("no error came")


same(ask("subtract", {"minuend": 42, "subtrahend": 23}), 19)
same(ask("sum", [1, 2, 4]), 7)
same(ask("echo", {"ü": "€😀" * 50000}), {"ü": "€😀" * 50000})
same(code_of("nope"), -32601)
same(code_of("fail", {"code": 5, "message": "m"}), 5)
same(code_of("crash"), -32603)
endpoint.notify("update", [1])
same(ask("count"), 1)
same(ask("emit", [3]), 3)
same(ticks, [[0], [1], [2]])
same(ask("callback", ["who", {"a": 1}]), ["me", {"a": 1}])
same(ask("get_data"), ["hello", 5])
# It cancels by its own string id, with $/cancelRequest. The answer to a cancelled request, which
# LSP prescribes, kills its reading thread: so this comes last, and the server's end tells that the
# nine seconds were not slept.
threading.excepthook = lambda args: None
begin = time.monotonic()
endpoint.request("sleep", [9000]).cancel()
child.stdin.close()
same(child.wait(15), 0)
same(time.monotonic() - begin < 5, True)
print("ok", checked, flush=True)
endpoint.shutdown()
os._exit(0)

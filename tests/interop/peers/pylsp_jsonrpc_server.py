"""python-lsp-jsonrpc as the server of `antiphon-peer client stdio:lsp:…`."""

import sys

from pylsp_jsonrpc.dispatchers import MethodDispatcher
from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.exceptions import JsonRpcException
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter


class Methods(MethodDispatcher):
    def m_add(self, a=0, b=0):
        return a + b

    def m_fail(self, **_):
        raise JsonRpcException("failed", code=7, data={"x": 1})

    def m_ask(self, method="", **_):
        return lambda: endpoint.request(method, ["q"]).result(timeout=10)

    def m_burst(self, count=0):
        for i in range(count):
            endpoint.notify("tick", [i])
        return count


reader = JsonRpcStreamReader(sys.stdin.buffer)
endpoint = Endpoint(Methods(), JsonRpcStreamWriter(sys.stdout.buffer).write)
reader.listen(endpoint.consume)
endpoint.shutdown()

"""python-lsp-jsonrpc, or its ancestor python-jsonrpc-server, as the server of
`antiphon-peer client stdio:lsp:…`:

    python pylsp_server.py pylsp_jsonrpc|pyls_jsonrpc

A method that gives a function has it run in a thread, where it can be cancelled before it begins.
"""

import asyncio
import importlib
import sys

import foreign

PACKAGE = sys.argv[1]
JsonRpcException = importlib.import_module(f"{PACKAGE}.exceptions").JsonRpcException
streams = importlib.import_module(f"{PACKAGE}.streams")
service = foreign.Service()


def run(name, params):
    try:
        return asyncio.run(getattr(service, name)(params))
    except foreign.Failed as failed:
        raise JsonRpcException(failed.message, failed.code, failed.data) from failed


def burst(params):
    for i in range(params["count"]):
        endpoint.notify("tick", [i])
    return params["count"]


methods = {name: lambda params, name=name: run(name, params) for name in foreign.METHODS}
methods["sleep"] = lambda params: lambda: run("sleep", params)
methods["callback"] = lambda params: lambda: endpoint.request(*params).result(timeout=10)
methods["burst"] = burst
reader = streams.JsonRpcStreamReader(sys.stdin.buffer)
writer = streams.JsonRpcStreamWriter(sys.stdout.buffer)
endpoint = importlib.import_module(f"{PACKAGE}.endpoint").Endpoint(
    methods, writer.write, max_workers=60)
reader.listen(endpoint.consume)
endpoint.shutdown()

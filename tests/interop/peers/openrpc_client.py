"""Calls every method of a server over HTTP, knowing only what `rpc.discover` says: by name and by position.

    openrpc_client.py URL    prints `ok` and the number of calls
"""

import json
import sys
import urllib.request

VALUES = {"number": 8, "integer": 8, "string": "eight", "boolean": True, "null": None, "array": [], "object": {}}


def send(url, message):
    request = urllib.request.Request(url, json.dumps(message).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        body = reply.read()
    return json.loads(body) if body else None


def call(url, method, params):
    reply = send(url, {"jsonrpc": "2.0", "method": method, "params": params, "id": 1})
    assert reply["id"] == 1, reply
    return reply["result"]


def fits(value, schema):
    kinds = {"number": (int, float), "integer": int, "string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}
    return isinstance(value, kinds[schema["type"]]) if "type" in schema else True


def main(url):
    document, calls = call(url, "rpc.discover", {}), 0
    for method in document["methods"]:
        assert all(param["required"] for param in method["params"]), method
        params = {param["name"]: VALUES[param["schema"]["type"]] for param in method["params"]}
        results = [call(url, method["name"], params), call(url, method["name"], list(params.values()))]
        assert results[0] == results[1] and fits(results[0], method["result"]["schema"]), (method, results)
        calls += len(results)
    assert calls >= 2, document
    print(f"ok {calls}")


main(sys.argv[1])

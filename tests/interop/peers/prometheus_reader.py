"""Makes calls over HTTP and reads what the server measured, by the parser of prometheus_client.

    prometheus_reader.py RPC-URL METRICS-URL    prints `ok` and the number of checks
"""

import json
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

UNKNOWN, PER_BATCH = 10_000, 50
NAME = "rpc_server_call_duration_seconds"


def post(url, messages):
    request = urllib.request.Request(url, json.dumps(messages).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.loads(reply.read() or "null")


def call(method, params, number=1):
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": number}


def scrape(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4"), reply.headers
        return {family.name: family for family in text_string_to_metric_families(reply.read().decode())}


def main(rpc, metrics):
    for n in range(7):
        assert post(rpc, call("add", [n, 1]))["result"] == n + 1
    for n in range(5):
        assert "result" in post(rpc, call("divide", {"a": n, "b": 2}))
    for _ in range(3):
        assert post(rpc, call("divide", [1, 0]))["error"]["code"] == 1001
    assert post(rpc, call("divide", [1]))["error"]["code"] == -32602
    assert post(rpc, {"jsonrpc": "2.0", "method": "add", "params": [1, 2]}) is None
    exchanges = 7 + 5 + 3 + 1 + 1
    for first in range(0, UNKNOWN, PER_BATCH):
        batch = [call(f"no such method {n}\n\"\\", [], n) for n in range(first, first + PER_BATCH)]
        replies = post(rpc, batch)
        assert [reply["error"]["code"] for reply in replies] == [-32601] * PER_BATCH
        exchanges += 1

    families = scrape(metrics)
    calls = families[NAME]
    assert calls.type == "histogram", calls
    counts, buckets, sums = {}, {}, {}
    for sample in calls.samples:
        assert sample.labels.pop("rpc_system_name") == "jsonrpc", sample
        key = (sample.labels["rpc_method"], sample.labels.get("error_type"))
        if sample.name == NAME + "_count":
            counts[key] = sample.value
        elif sample.name == NAME + "_sum":
            sums[key] = sample.value
        else:
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
    expected = {
        ("add", None): 8,
        ("divide", None): 5,
        ("divide", "1001"): 3,
        ("divide", "-32602"): 1,
        ("_OTHER", "-32601"): UNKNOWN,
    }
    assert counts == expected, counts
    for key, count in expected.items():
        bounds, values = zip(*buckets[key])
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == float("inf"), bounds
        assert list(values) == sorted(values) and values[-1] == count, values
        assert 0 < sums[key] < 60 * count, sums[key]

    sizes = families["antiphon_server_batch_size"]
    assert sizes.type == "histogram", sizes
    sizes = {(sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value for sample in sizes.samples}
    batches = UNKNOWN // PER_BATCH
    assert sizes["count", None] == sizes["bucket", "50"] == batches and sizes["bucket", "20"] == 0, sizes
    assert sizes["sum", None] == UNKNOWN, sizes

    def value(name, kind):
        family = families[name]
        assert family.type == kind and family.documentation, family
        (sample,) = family.samples
        return sample.value
    assert value("antiphon_server_calls_running", "gauge") == 0
    assert value("antiphon_server_connections_open", "gauge") == 0
    assert value("antiphon_server_connections", "counter") == exchanges
    print("ok", len(expected) * 4 + 9)


main(*sys.argv[1:])

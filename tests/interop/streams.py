"""Topics, durable topics, subscriptions and flows: by this driver alone, and with programs of other authors over WebSocket."""

from checklist import TIMEOUT, same
from libraries import foreign_server, js, py
from raw_client import Client
from raw_server import FORMS, code_of, ok, served
from suite import ALLOY, case, node_env, rust
from web_libraries import RUNTIMES, on, over
from wire import run_once


def works(command, *wanted):
    """Runs a program to its end; it must have seen exactly this."""
    code, out, err = run_once(command, env=node_env(), timeout=TIMEOUT)
    *lines, last = out.decode().split() or [""]
    assert (code, last) == (0, "ok"), err.decode(errors="replace")[-2000:]
    seen = [word for word in lines if word != "seen"]
    same(seen, list(wanted))
    return " ".join(seen)


def layered(*options):
    """The URL of a server of ours with topics, blocks and flows."""
    return over("ws", "--layers", *options)


def options_of(runtime):
    return ("--runtime", runtime) if runtime else ()


def told(method, **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


# PUB-02 PUB-03 USE-15
@case("layers {form}: a publication, and blocks until the server ends them", forms=FORMS)
def layers(form):
    with served(form, "--layers") as (_, wire):
        same(wire.ask("rpc.subscribe", {"topic": "a.*"}), ok({"subscribed": True}))
        # A peer's own publication may come before the answer to it, or after.
        got = [wire.ask("publish", ["a.b", {"x": 1.50}], 2), wire.json()]
        assert ok(1, 2) in got and told("rpc.notification", topic="a.b", data={"x": 1.5}) in got, got
        same(wire.ask("eth_subscribe", ["newHeads", 3], 3), ok("0x1", 3))
        heads = []
        for _ in range(3):
            head = wire.json()
            heads.append(head["params"].pop("result"))
            same(head, told("eth_subscription", subscription="0x1"))
        why = {"code": -32001, "message": "Stream completed"}
        same(wire.json(), told("eth_subscription", subscription="0x1", error=why))
        for before, head in zip(heads, heads[1:]):
            same((int(head["number"], 16), head["parentHash"]), (int(before["number"], 16) + 1, before["hash"]))
        block = wire.ask("eth_getBlockByNumber", [heads[0]["number"], False])["result"]
        assert block.items() >= heads[0].items() and block["transactions"] == [], block
        assert int(wire.ask("eth_blockNumber")["result"], 16) >= int(heads[2]["number"], 16)
        same(wire.ask("eth_unsubscribe", ["0x1"]), ok(False))
        same(code_of(wire.ask("eth_subscribe", ["logs"])), -32602)


# PUB-16
@case("layers: over HTTP nothing subscribes; without --layers there are none", ("target:http",))
def without_layers():
    client = Client(over("http", "--layers"))
    same(client.call("rpc.subscribe", {"topic": "a"})["error"]["code"], -32601)
    same(client.call("eth_subscribe", ["newHeads"])["error"]["code"], -32601)
    same(client.call("publish", ["a", 1]), {"result": 0})
    assert "refused" in client.do("subscribe", method="eth_subscribe", params=["newHeads"])
    assert client.end() == 0
    with served("tcp", "--extensions") as (_, wire):
        for method in ("rpc.subscribe", "publish", "eth_getBlockByNumber"):
            same(code_of(wire.ask(method, ["a"])), -32601)


for runtime in RUNTIMES:
    # EXA-06 PUB-02 PUB-03 PUB-04 PUB-05 PUB-06 PUB-09 PUB-10 PUB-11 TST-18
    @case(f"topics with websockets (PyPI){on(runtime)}", ("pypi:websockets", "target:ws"))
    def topics_python(options=options_of(runtime)):
        return works([*py("topics_client.py"), layered(*options)])

    # EXA-06 PUB-02 PUB-03 PUB-05 PUB-10 PUB-11 TST-18
    @case(f"topics with ws (npm){on(runtime)}", ("npm:ws", "target:ws"))
    def topics_node(options=options_of(runtime)):
        return works([*js("topics_client.cjs"), layered(*options)])

    # EXA-07 PER-02 PER-06 PER-09 PER-10 PER-12 PER-15 PER-16 PER-20 TST-18
    @case(f"durable topics with websockets (PyPI){on(runtime)}", ("pypi:websockets", "target:ws"))
    def durable_python(options=options_of(runtime)):
        return works([*py("durable_client.py"), layered(*options)])

    # EXA-07 PER-02 PER-06 PER-09 PER-10 PER-15 PER-16 TST-18
    @case(f"durable topics with ws (npm){on(runtime)}", ("npm:ws", "target:ws"))
    def durable_node(options=options_of(runtime)):
        return works([*js("durable_client.cjs"), layered(*options)])

    # EXA-09 FLO-04 FLO-06 FLO-07 FLO-08 FLO-09 FLO-14
    @case(f"flows with websockets (PyPI){on(runtime)}", ("pypi:websockets", "target:ws"))
    def flows_python(options=options_of(runtime)):
        return works([*py("flows_client.py"), layered(*options)])

    # EXA-09 FLO-04 FLO-06 FLO-07 FLO-08 FLO-09 FLO-14
    @case(f"flows with ws (npm){on(runtime)}", ("npm:ws", "target:ws"))
    def flows_node(options=options_of(runtime)):
        return works([*js("flows_client.cjs"), layered(*options)])


# PUB-03
@case("topics with jsonrpc-websocket (PyPI)", ("pypi:jsonrpc_websocket", "target:ws"))
def topics_jsonrpc_websocket():
    return works([*py("jsonrpc_websocket_topics.py"), layered()])


# PUB-03
@case("topics with json-rpc-2.0 (npm)", ("npm:json-rpc-2.0", "npm:ws", "target:ws"))
def topics_json_rpc_2_0():
    return works([*js("json_rpc_2_0_topics.cjs"), layered()])


# The programs that follow blocks: what they need, their commands, and what they have seen.
FOLLOWERS = {
    "viem": ("npm:viem", js("viem_heads.cjs"), ("heads", "numbers", "blocks")),
    "ethers": ("npm:ethers", js("ethers_heads.cjs"), ("numbers", "block", "heads", "unsubscribe")),
    "web3.py": ("pypi:web3", py("web3_heads.py"), ("stream", "handlers")),
    "jsonrpsee": ("rust:jsonrpsee_streams", [rust("jsonrpsee_streams"), "follow"],
                  ("heads", "two", "dropped", "end", "refused")),
    "alloy": ("alloy", [ALLOY], ("heads", "again")),
}

for name, (need, command, wanted) in FOLLOWERS.items():
    for runtime in RUNTIMES:
        # USE-15 TST-15
        @case(f"{name} follows the blocks of server ws{on(runtime)}", (need, "target:ws"))
        def follows(command=command, wanted=wanted, options=options_of(runtime)):
            return works([*command, layered("--preset", "ethereum", *options)], *wanted)


def heights(client, subscription, count):
    """Reads so many events; their heights are contiguous. Gives the last."""
    last = None
    for _ in range(count):
        event = client.do("event", subscription=subscription, timeout_ms=5000)["event"]
        height = int(event["number"], 16)
        assert last is None or height == last + 1, f"{last}, then {height}"
        last = height
    return last


for runtime in RUNTIMES:
    # USE-15
    @case(f"a client ws follows jsonrpsee's server{on(runtime)}", ("rust:jsonrpsee_streams", "target:ws"))
    def follows_jsonrpsee(options=options_of(runtime)):
        _, port = foreign_server([rust("jsonrpsee_streams"), "server"])
        client = Client(f"ws://127.0.0.1:{port}/", options=("--preset", "ethereum", *options))
        first, second = (client.do("subscribe", method="eth_subscribe", params=["newHeads"])["subscription"]
                         for _ in range(2))
        assert first != second
        same(client.call("followers", []), {"result": 2})
        for subscription in (first, second):
            heights(client, subscription, 15)
        same(client.do("unsubscribe", subscription=first), {"ok": True})
        while client.call("followers", []) != {"result": 1}:
            pass
        heights(client, second, 15)
        # The server gives this one up after three blocks.
        short = client.do("subscribe", method="eth_subscribe", params=["newHeads", 3])["subscription"]
        heights(client, short, 3)
        assert "there are no more blocks" in client.do("event", subscription=short)["ended"]
        # All of them were events of their streams.
        same(client.do("wait", method="eth_subscription", timeout_ms=100), {"timeout": True})
        same(client.do("unsubscribe", subscription=second), {"ok": True})
        same(client.do("event", subscription=second), {"error_line": "no such subscription"})
        assert client.end() == 0


# USE-15
@case("a client ws follows a server ws of ours, until that ends", ("target:ws",))
def follows_ours():
    client = Client(layered("--preset", "ethereum"), options=("--preset", "ethereum"))
    subscription = client.do("subscribe", method="eth_subscribe", params=["newHeads", 12])["subscription"]
    heights(client, subscription, 12)
    same(client.do("event", subscription=subscription), {"ended": "there are no more events"})
    same(client.do("subscribe", method="eth_subscribe", params=["logs"])["error"]["code"], -32602)
    same(client.do("subscribe", method="subscribe"), {"error_line": "no such subscription"})
    assert client.end() == 0

"""JSON-RPC libraries that nobody here wrote, over HTTP and WebSocket, as clients and as servers."""

from checklist import but, client_sees, same, server_seen
from libraries import foreign_server, js, py
from raw_client import Client
from suite import PEER, case, rust
from wire import Process

# What each library has over which transport. None of them can cancel but pygls; over HTTP nobody
# can be called back.
HTTP = but("cancel", "back")
TWO_WAY = but("cancel")
ONE_WAY = but("cancel", "back")


def served(target, *options):
    """Starts antiphon's server; gives the URL that it listens on."""
    process = Process([PEER, *options, "server", target])
    return process.stderr_line(r"^listening (\S+)$").group(1)


def over(scheme, *options):
    """The URL of a server of ours; its path is what the libraries can say."""
    return served(f"{scheme}://127.0.0.1:0/" + ("rpc" if scheme == "http" else ""), *options)


def seen_of(url, wanted, *options, **given):
    """Drives a foreign server, and lets it go in good order."""
    client = Client(url, options=options)
    seen = server_seen(client, wanted, **given)
    return client, seen


# -- jayson

# TST-20
for kind in ("http", "ws"):
    @case(f"jayson as client of server {kind}", ("npm:jayson", "npm:ws", f"target:{kind}"))
    def jayson_client(kind=kind):
        return client_sees([*js("jayson_client.cjs"), kind, over(kind), *sorted(ONE_WAY)], ONE_WAY)

    @case(f"jayson as server of client {kind}", ("npm:jayson", f"target:{kind}"))
    def jayson_server(kind=kind):
        _, port = foreign_server([*js("jayson_server.cjs"), kind, "2"])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", ONE_WAY)
        assert client.end() == 0
        return seen


# -- json-rpc-2.0, which leaves the transport to its users: fetch and node's server, and ws

for kind, points in (("http", HTTP), ("ws", TWO_WAY)):
    @case(f"json-rpc-2.0 (npm) as client of server {kind}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_client(kind=kind, points=points):
        return client_sees([*js("json_rpc_2_0_client.cjs"), kind, over(kind), *sorted(points)],
                           points)

    @case(f"json-rpc-2.0 (npm) as server of client {kind}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_server(kind=kind, points=points):
        _, port = foreign_server([*js("json_rpc_2_0_server.cjs"), kind])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", points)
        assert client.end() == 0
        return seen


# -- rpc-websockets

@case("rpc-websockets as client of server ws", ("npm:rpc-websockets", "target:ws"))
def rpc_websockets_client():
    wanted = but("batch", "cancel", "back")
    return client_sees([*js("rpc_websockets_client.cjs"), over("ws"), *sorted(wanted)], wanted)


@case("rpc-websockets as server of client ws: its events are no JSON-RPC, and do no harm",
      ("npm:rpc-websockets", "target:ws"))
def rpc_websockets_server():
    _, port = foreign_server(js("rpc_websockets_server.cjs"))
    client, seen = seen_of(f"ws://127.0.0.1:{port}/", ONE_WAY)
    same(client.call("rpc.on", ["tick"]), {"result": {"tick": "ok"}})
    same(client.call("emit", [5]), {"result": 5})
    same(client.call("echo", ["after"]), {"result": ["after"]})
    same(client.do("wait", method="tick", timeout_ms=100), {"timeout": True})
    assert client.end() == 0
    return seen


# -- jsonrpsee

for kind in ("http", "ws"):
    @case(f"jsonrpsee as client of server {kind}", ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_client(kind=kind):
        return client_sees([rust("jsonrpsee_peer"), "client", kind, over(kind), *sorted(ONE_WAY)],
                           ONE_WAY)

    # It takes notifications and drops them: its methods never hear of them.
    @case(f"jsonrpsee as server of client {kind}", ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_server(kind=kind):
        _, port = foreign_server([rust("jsonrpsee_peer"), "server"])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", ONE_WAY - {"notification"})
        same(client.do("notify", method="update", params=[1]), {"ok": True})
        same(client.call("count", []), {"result": 0})
        if kind == "ws":
            subscription = client.call("eth_subscribe", ["newHeads"])["result"]
            for number in ("0x11", "0x12", "0x13"):
                told = client.do("wait", method="eth_subscription", timeout_ms=2000)["notification"]
                same(told, {"subscription": subscription, "result": {"number": number}})
        assert client.end() == 0
        return seen


# -- PyPI

# TST-15
@case("jsonrpcclient (PyPI) as client of server http",
      ("pypi:jsonrpcclient", "pypi:aiohttp", "target:http"))
def jsonrpcclient():
    return client_sees([*py("jsonrpcclient_peer.py"), over("http"), *sorted(HTTP)], HTTP)


# TST-15
@case("jsonrpcserver (PyPI) behind aiohttp as server of client http",
      ("pypi:jsonrpcserver", "pypi:aiohttp", "target:http"))
def jsonrpcserver():
    _, port = foreign_server([*py("jsonrpcserver_peer.py"), "http"])
    client, seen = seen_of(f"http://127.0.0.1:{port}/jsonrpc", HTTP)
    assert client.end() == 0
    return seen


@case("jsonrpc-websocket (PyPI) as client of server ws", ("pypi:jsonrpc_websocket", "target:ws"))
def jsonrpc_websocket():
    wanted = but("batch", "cancel")
    return client_sees([*py("jsonrpc_websocket_client.py"), over("ws"), *sorted(wanted)], wanted)


# It sets no limit of its own, and that of its transport is 1 MiB a message.
PYGLS = but("batch", "text")


@case("pygls's client of server ws", ("pypi:pygls", "pypi:websockets", "target:ws"))
def pygls_client():
    port = over("ws", "--preset", "lsp").rpartition(":")[2].partition("/")[0]
    return client_sees([*py("pygls_client.py"), "ws", port, *sorted(PYGLS)], PYGLS)


@case("pygls's JSON-RPC server of client ws", ("pypi:pygls", "pypi:websockets", "target:ws"))
def pygls_server():
    _, port = foreign_server([*py("pygls_rpc_server.py"), "ws"])
    client, seen = seen_of(f"ws://127.0.0.1:{port}/", PYGLS, "--preset", "lsp")
    # 1009: too big for it; what is open then is told as lost, not as timed out.
    assert "closed" in client.call("echo", ["ß" * (1 << 20)]), "it took 2 MiB"
    assert client.end() == 0
    return seen

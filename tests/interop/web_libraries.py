"""JSON-RPC libraries that nobody here wrote, over HTTP and WebSocket, as clients and as servers."""

from checklist import but, client_sees, same, server_seen
from libraries import foreign_server, js, py
from raw_client import Client
from suite import PEER, RUNTIME, case, rust
from wire import Process

# What each library has over which transport. None of them can cancel but pygls; over HTTP nobody
# can be called back.
HTTP = but("cancel", "back")
TWO_WAY = but("cancel")
ONE_WAY = but("cancel", "back")

# The adapters beside the one that everything else runs on.
RUNTIMES = (None, "tokio", "smol", "async-std")


def on(runtime):
    return f" on {runtime}" if runtime else ""


def served(target, *options):
    """Starts antiphon's server; gives the URL that it listens on."""
    process = Process([PEER, *RUNTIME, *options, "server", target])
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

for kind, points, runtime in [("http", HTTP, None)] + [("ws", TWO_WAY, one) for one in RUNTIMES]:
    options = ("--runtime", runtime) if runtime else ()

    @case(f"json-rpc-2.0 (npm) as client of server {kind}{on(runtime)}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_client(kind=kind, points=points, options=options):
        return client_sees([*js("json_rpc_2_0_client.cjs"), kind, over(kind, *options),
                            *sorted(points)], points)

    @case(f"json-rpc-2.0 (npm) as server of client {kind}{on(runtime)}",
          ("npm:json-rpc-2.0", "npm:ws", f"target:{kind}"))
    def json_rpc_2_0_server(kind=kind, points=points, options=options):
        _, port = foreign_server([*js("json_rpc_2_0_server.cjs"), kind])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", points, *options)
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

for kind, runtime in [("ws", None)] + [("http", one) for one in RUNTIMES]:
    options = ("--runtime", runtime) if runtime else ()

    @case(f"jsonrpsee as client of server {kind}{on(runtime)}",
          ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_client(kind=kind, options=options):
        return client_sees([rust("jsonrpsee_peer"), "client", kind, over(kind, *options),
                            *sorted(ONE_WAY)], ONE_WAY)

    # It takes notifications and drops them: its methods never hear of them.
    @case(f"jsonrpsee as server of client {kind}{on(runtime)}",
          ("rust:jsonrpsee_peer", f"target:{kind}"))
    def jsonrpsee_server(kind=kind, options=options):
        _, port = foreign_server([rust("jsonrpsee_peer"), "server"])
        client, seen = seen_of(f"{kind}://127.0.0.1:{port}/", ONE_WAY - {"notification"}, *options)
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


# It puts its messages into binary frames, which are no JSON-RPC to anybody who goes by the text.
# WSK-03
@case("pygls's client of server ws: its binary frames are refused with 1003",
      ("pypi:pygls", "pypi:websockets", "target:ws"))
def pygls_client():
    process = Process([PEER, *RUNTIME, "--preset", "lsp", "server", "ws://127.0.0.1:0/"])
    url = process.stderr_line(r"^listening (\S+)$").group(1)
    port = url.rpartition(":")[2].partition("/")[0]
    # It does not notice that it was refused.
    Process([*py("pygls_client.py"), "ws", port, "position"])
    process.stderr_line("1003")
    # The server lives on.
    client, seen = seen_of(url, {"position", "text"}, "--preset", "lsp")
    assert client.end() == 0
    return f"refused; others see {seen}"


# WSK-03
@case("pygls's JSON-RPC server of client ws: its binary frames are refused with 1003",
      ("pypi:pygls", "pypi:websockets", "target:ws"))
def pygls_server():
    _, port = foreign_server([*py("pygls_rpc_server.py"), "ws"])
    client = Client(f"ws://127.0.0.1:{port}/", options=("--preset", "lsp"))
    assert "closed" in client.call("subtract", [42, 23])
    client.process.stderr_line("1003")
    assert client.end() == 0
    return "refused"

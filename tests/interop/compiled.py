"""Compiled libraries from Debian, in C, C++ and Go, as clients and as servers."""

import socket

from checklist import TEXT, but, client_sees, order_of, same, server_seen, shown
from libraries import foreign_server
from raw_client import Client
from raw_server import Server
from suite import COMPILED, PEER, case
from web_libraries import over
from wire import Process, temporary_folder

# -- Go's net/rpc/jsonrpc: 1.0, one argument a call, errors that are texts, no notifications

GO = but("name", "error", "notification", "batch", "cancel", "back")


# ONE-01
@case("Go's net/rpc/jsonrpc as client of server --preset v1", ("compiled:go_stdlib",))
def go_client():
    server = Server("tcp", "--preset", "v1")
    return client_sees([COMPILED / "go_stdlib", "client", server.address[1], *sorted(GO)], GO)


# ONE-01 TST-20
@case("Go's net/rpc/jsonrpc as server of client --preset v1", ("compiled:go_stdlib",))
def go_server():
    _, port = foreign_server([COMPILED / "go_stdlib", "server"])
    client = Client(f"tcp://127.0.0.1:{port}", options=("--preset", "v1"))
    numbers = {"minuend": 42, "subtrahend": 23}
    same(client.call("Peer.Subtract", [numbers]), {"result": 19})
    failed = client.call("Peer.Fail", ["no, because"])
    same(failed.get("error", {}).get("data", failed), "no, because")
    items = []
    for i in range(50):
        items += [{"method": "Peer.Sleep", "params": [400 - 8 * i]},
                  {"method": "Peer.Echo", "params": [str(i)]}]
    answers = ["slept", None] * 50
    answers[1::2] = [str(i) for i in range(50)]
    order_of(client, items, answers)
    same(client.call("Peer.Echo", [TEXT], 20), {"result": TEXT})
    assert client.end() == 0
    return shown(GO, GO)


# -- sourcegraph/jsonrpc2 for Go: two-way, 2.0

SOURCEGRAPH = but("batch", "cancel")


@case("sourcegraph/jsonrpc2 as client of server tcp+lsp", ("compiled:go_sourcegraph",))
def sourcegraph_client():
    server = Server("tcp+lsp")
    return client_sees([COMPILED / "go_sourcegraph", "client", "tcp+lsp", server.address[1],
                        *sorted(SOURCEGRAPH)], SOURCEGRAPH)


@case("sourcegraph/jsonrpc2 as server of client tcp+lsp", ("compiled:go_sourcegraph",))
def sourcegraph_server():
    _, port = foreign_server([COMPILED / "go_sourcegraph", "server", "tcp+lsp"])
    client = Client(f"tcp+lsp://127.0.0.1:{port}")
    seen = server_seen(client, SOURCEGRAPH)
    assert client.end() == 0
    return seen


@case("sourcegraph/jsonrpc2 as client of server ws", ("compiled:go_sourcegraph", "target:ws"))
def sourcegraph_client_ws():
    port = over("ws").rpartition(":")[2].partition("/")[0]
    return client_sees([COMPILED / "go_sourcegraph", "client", "ws", port, *sorted(SOURCEGRAPH)],
                       SOURCEGRAPH)


@case("sourcegraph/jsonrpc2 as server of client ws", ("compiled:go_sourcegraph", "target:ws"))
def sourcegraph_server_ws():
    _, port = foreign_server([COMPILED / "go_sourcegraph", "server", "ws"])
    client = Client(f"ws://127.0.0.1:{port}/")
    seen = server_seen(client, SOURCEGRAPH)
    assert client.end() == 0
    return seen


# -- libjsonrpccpp for C++: HTTP and Unix sockets

CPP = but("cancel", "back")


@case("libjsonrpccpp as client of server unix", ("compiled:jsonrpccpp",))
def cpp_client_unix():
    # After a notification it waits for an empty line, which only its own server sends.
    wanted = CPP - {"notification"}
    server = Server("unix")
    return client_sees([COMPILED / "jsonrpccpp", "client", "unix", server.address,
                        *sorted(wanted)], wanted)


@case("libjsonrpccpp as server of client unix: it closes behind every answer",
      ("compiled:jsonrpccpp",))
def cpp_server_unix():
    with temporary_folder() as folder:
        path = f"{folder}/socket"
        process = Process([COMPILED / "jsonrpccpp", "server", "unix", path])
        same(process.stdout_line(), "listening\n")
        seen = []
        for point in ("position", "name", "batch", "text"):
            client = Client(f"unix:{path}")
            seen.append(server_seen(client, {point}))
            assert "closed" in client.call("count", []), "it goes on"
            assert client.end() == 0
        return " ".join(seen)


@case("libjsonrpccpp as client of server http", ("compiled:jsonrpccpp", "target:http"))
def cpp_client_http():
    # After a notification it takes no status but 200; ours is 204 unless WebRules says otherwise.
    wanted = CPP - {"notification"}
    return client_sees([COMPILED / "jsonrpccpp", "client", "http", over("http"),
                        *sorted(wanted)], wanted)


@case("libjsonrpccpp as server of client http", ("compiled:jsonrpccpp", "target:http"))
def cpp_server_http():
    # It cannot tell which port it was given, so one is chosen for it.
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    process = Process([COMPILED / "jsonrpccpp", "server", "http", port])
    same(process.stdout_line(), "listening\n")
    client = Client(f"http://127.0.0.1:{port}/")
    seen = server_seen(client, CPP)
    assert client.end() == 0
    return seen


# -- jsonrpc-glib for C: errors without data

GLIB = but("error", "batch", "cancel")


@case("jsonrpc-glib as client of server stdio:lsp", ("compiled:jsonrpc_glib",))
def glib_client():
    return client_sees([COMPILED / "jsonrpc_glib", "client", *sorted(GLIB), "--",
                        PEER, "--preset", "lsp", "server", "stdio:lsp"], GLIB)


@case("jsonrpc-glib as server of client stdio:lsp", ("compiled:jsonrpc_glib",))
def glib_server():
    client = Client(f"stdio:lsp:{COMPILED / 'jsonrpc_glib'}", "server", options=("--preset", "lsp"))
    seen = server_seen(client, GLIB)
    same(client.call("fail", {"code": 7})["error"], {"code": 7, "message": "failed"})
    same(client.call("nope", {})["error"]["code"], -32601)
    assert client.end() == 0
    return seen

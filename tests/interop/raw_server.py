"""The server's contract over stdio, TCP and Unix sockets, spoken to without antiphon's own client."""

import contextlib
import json
import os
import signal
import socket
import struct
import threading
import time

from suite import PEER, RUNTIME, case
from wire import PATIENCE, Process, run_once, socket_wire, temporary_folder

FORMS = ("stdio:lsp", "stdio:ndjson", "tcp", "tcp+lsp", "tcp+json", "unix")
LISTENING = ("tcp", "tcp+lsp", "tcp+json", "unix")
FRAMING = {"stdio:lsp": "lsp", "stdio:ndjson": "ndjson", "tcp": "ndjson", "tcp+lsp": "lsp",
           "tcp+json": "json", "unix": "ndjson"}
MIB = 1 << 20


class Server:
    """A running `antiphon-peer server`, and ways to connect to it."""

    def __init__(self, form, *options):
        self.form = form
        self.folder = None
        if form.startswith("stdio:"):
            self.process = Process([PEER, *RUNTIME, *options, "server", form])
            return
        if form == "unix":
            self.folder = temporary_folder()
            target = f"unix:{self.folder.name}/socket"
        else:
            target = f"{form}://127.0.0.1:0"
        self.process = Process([PEER, *RUNTIME, *options, "server", target])
        listening = self.process.stderr_line(r"^listening (\S+)$").group(1)
        if form == "unix":
            assert listening == target, listening
            self.address = target[len("unix:"):]
        else:
            scheme, _, address = listening.partition("://")
            host, _, port = address.rpartition(":")
            assert scheme == form and int(port) > 0, listening
            self.address = (host, int(port))

    def connect(self):
        if self.form.startswith("stdio:"):
            return self.process.wire(FRAMING[self.form])
        return socket_wire(FRAMING[self.form], self.address)


@contextlib.contextmanager
def served(form, *options):
    server = Server(form, *options)
    wire = server.connect()
    yield server, wire
    wire.close()


def ok(result, ident=1):
    return {"jsonrpc": "2.0", "result": result, "id": ident}


def code_of(answer):
    assert "error" in answer and "result" not in answer, answer
    return answer["error"]["code"]


@case("server {form}: every method, result and error code of the contract", forms=FORMS)
def methods(form):
    with served(form) as (_, wire):
        table = [
            ("subtract", [42, 23], 19),
            ("subtract", {"minuend": 42, "subtrahend": 23}, 19),
            ("subtract", {"subtrahend": 23, "minuend": 42}, 19),
            ("subtract", [1.5, 1], 0.5),
            ("sum", [1, 2, 4], 7),
            ("sum", [], 0),
            ("get_data", ..., ["hello", 5]),
            ("echo", ..., None),
            ("echo", None, None),
            ("echo", [], []),
            ("echo", {"a": [None, "ü", {}]}, {"a": [None, "ü", {}]}),
            ("sleep", [1], "slept"),
            ("sleep", ..., "slept"),
            ("update", [1, 2, 3, 4, 5], None),
            ("notify_hello", [7], None),
            ("notify_sum", [1, 2, 4], None),
            ("count", ..., 3),
            ("eth_chainId", ..., "0x7a69"),
            ("net_version", [], "31337"),
            ("eth_blockNumber", [], "0x10"),
            ("eth_getBalance", ["0x0", "latest"], "0xde0b6b3a7640000"),
            ("eth_gasPrice", [], "0x3b9aca00"),
            ("eth_accounts", [], []),
            ("eth_unsubscribe", ["0x51"], True),
        ]
        for ident, (method, params, wanted) in enumerate(table, 1):
            answer = wire.ask(method, params, ident)
            assert answer == ok(wanted, ident), (method, params, answer)
        errors = [
            ("subtract", [1], -32602), ("subtract", ["a", 1], -32602), ("subtract", ..., -32602),
            ("subtract", {"minuend": 1}, -32602), ("sum", [1, "2"], -32602),
            ("sum", {"a": 1}, -32602), ("sum", ..., -32602), ("crash", ..., -32603),
            ("foobar", ..., -32601), ("rpc.discover", ..., -32601), ("tick", [1], -32601),
        ]
        for ident, (method, params, code) in enumerate(errors, 100):
            answer = wire.ask(method, params, ident)
            assert code_of(answer) == code and answer["id"] == ident, (method, params, answer)
        # It lives on after the panic.
        assert wire.ask("get_data") == ok(["hello", 5])


# MSG-05
@case("server {form}: params, numbers and ids come back to the byte", forms=FORMS)
def exact(form):
    with served(form) as (_, wire):
        params = ['[1.0]', '[1e2,18446744073709551616,-0,0.10]', '{"b":1,"a":2,"b":3}',
                  '["\\u00fc\\/ü\\ud83d","😀"]', '[' + '9' * 400 + ']', '[ 1 ,\t2 ]']
        idents = ['1.0', '1e2', '18446744073709551616', '-0', '"\\u0031"', '"ü"', 'null',
                  '7' * 400]
        for text in params:
            wire.send('{"jsonrpc":"2.0","method":"echo","params":%s,"id":1}' % text)
            got = wire.text()
            assert f'"result":{text}' in got, (text, got)
        for text in idents:
            wire.send('{"jsonrpc":"2.0","method":"get_data","id":%s}' % text)
            got = wire.text()
            assert got.endswith('"id":%s}' % text), (text, got)


# MSG-16
@case("server {form}: fail answers exactly the error asked for", forms=FORMS)
def fails(form):
    with served(form) as (_, wire):
        for error in ({"code": 7, "message": "no"}, {"code": -32000, "message": "", "data": None},
                      {"code": -1, "message": "ü", "data": {"deep": [1.5]}}):
            assert wire.ask("fail", error) == {"jsonrpc": "2.0", "error": error, "id": 1}
        assert code_of(wire.ask("fail", {"code": "x"})) == -32602


@case("server {form}: sleep lets other requests go on", forms=FORMS)
def sleeps(form):
    with served(form) as (_, wire):
        wire.send({"jsonrpc": "2.0", "method": "sleep", "params": [400], "id": "slow"})
        begin = time.monotonic()
        assert wire.ask("get_data", ident="quick") == ok(["hello", 5], "quick")
        assert time.monotonic() - begin < 0.35
        assert wire.json() == ok("slept", "slow")


@case("server {form}: emit and eth_subscribe keep the order of result and notifications", forms=FORMS)
def order(form):
    with served(form) as (_, wire):
        wire.send({"jsonrpc": "2.0", "method": "emit", "params": [20], "id": 1})
        for i in range(20):
            tick = wire.json()
            assert tick == {"jsonrpc": "2.0", "method": "tick", "params": [i]}, tick
        assert wire.json() == ok(20)
        assert wire.ask("eth_subscribe", ["newHeads"]) == ok("0x51")
        for number in ("0x11", "0x12", "0x13"):
            event = wire.json()
            assert event["method"] == "eth_subscription", event
            params = event["params"]
            assert params["subscription"] == "0x51", event
            assert params["result"]["number"] == number, event
            assert set(params["result"]) == {"number", "hash", "parentHash"}, event
        wire.nothing()


# ARC-09
@case("server {form}: callback calls the client, 64 at once, without deadlock", forms=FORMS)
def callbacks(form):
    with served(form) as (_, wire):
        for ident in range(64):
            wire.send({"jsonrpc": "2.0", "method": "callback",
                       "params": ["client/name", [ident]], "id": f"cb{ident}"})
        asked = [wire.json() for _ in range(64)]
        assert all(request["method"] == "client/name" for request in asked), asked[:3]
        assert len({request["id"] for request in asked}) == 64
        for request in reversed(asked):
            if request["params"][0] % 2:
                wire.send(ok(request["params"], request["id"]))
            else:
                error = {"code": 5, "message": "even", "data": request["params"]}
                wire.send({"jsonrpc": "2.0", "error": error, "id": request["id"]})
        answers = {answer["id"]: answer for answer in (wire.json() for _ in range(64))}
        for ident in range(64):
            answer = answers[f"cb{ident}"]
            if ident % 2:
                assert answer["result"] == [ident], answer
            else:
                assert answer["error"] == {"code": 5, "message": "even", "data": [ident]}, answer
        assert code_of(wire.ask("callback", [5])) == -32602


# SRV-20
@case("server {form}: batches: mixed, invalid items, only notifications, empty", forms=FORMS)
def batches(form):
    with served(form) as (_, wire):
        wire.send([
            {"jsonrpc": "2.0", "method": "sum", "params": [1, 2, 4], "id": "1"},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
            {"jsonrpc": "2.0", "method": "sleep", "params": [50], "id": "2"},
            {"foo": "boo"}, 1,
            {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
            {"jsonrpc": "2.0", "method": "get_data", "id": "9"},
        ])
        answer = wire.json()
        by_id = {item["id"]: item for item in answer if item["id"] is not None}
        assert by_id["1"]["result"] == 7 and by_id["2"]["result"] == "slept", answer
        assert code_of(by_id["5"]) == -32601 and by_id["9"]["result"] == ["hello", 5], answer
        assert sorted(code_of(item) for item in answer if item["id"] is None) == [-32600] * 2
        wire.send([{"jsonrpc": "2.0", "method": "update", "params": [1]}] * 3)
        wire.nothing()
        assert wire.ask("count") == ok(4)
        wire.send([])
        assert code_of(wire.json()) == -32600


# SER-04 MSG-20 ONE-02
@case("server {form}: garbage is answered and its neighbours are served", forms=FORMS)
def garbage(form):
    with served(form) as (_, wire):
        table = [('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', -32700),
                 ('{"jsonrpc":"2.0","method":1,"params":[],"id":1}', -32600),
                 ('{"jsonrpc":"2.0","method":"echo","params":"bar","id":1}', -32600),
                 ('{"method":"echo","id":1}', -32600), ('[1,2,3]', -32600), ('"text"', -32600),
                 ('{"jsonrpc":"2.0","id":1}', -32600),
                 ('[{"jsonrpc":"2.0","method":"sum"},{"jsonrpc":"2.0"', -32700),
                 ('[' * 200 + ']' * 200, -32700)]
        for text, code in table:
            if form == "tcp+json" and text.count('"') % 2 + text.count("{") - text.count("}"):
                continue  # A value that never closes swallows what follows: no framing can tell.
            wire.send(text)
            answer = wire.json()
            for item in answer if isinstance(answer, list) else [answer]:
                assert code_of(item) == code, (text, answer)
        assert wire.ask("get_data", ident=2) == ok(["hello", 5], 2)


# STD-01 STD-08 TRN-10
@case("server {form}: writes split at every byte, and many messages in one write", forms=FORMS)
def split(form):
    with served(form) as (_, wire):
        wire.send_slowly({"jsonrpc": "2.0", "method": "echo", "params": ["€😀"], "id": 1})
        assert wire.json() == ok(["€😀"])
        frames = b"".join(
            wire.frame(json.dumps({"jsonrpc": "2.0", "method": "echo", "params": [i], "id": i})
                       .encode())
            for i in range(200))
        wire.send_raw(frames[:1001])
        wire.send_raw(frames[1001:])
        got = {answer["id"]: answer["result"] for answer in (wire.json() for _ in range(200))}
        assert got == {i: [i] for i in range(200)}


def message_of(size):
    """A request of exactly `size` bytes."""
    head, tail = b'{"jsonrpc":"2.0","method":"echo","id":1,"params":["', b'"]}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


# SRV-15
@case("server {form}: 4 MiB pass, one byte more is refused, the next message is served", forms=FORMS)
def sizes(form):
    with served(form) as (_, wire):
        for size in (4 * MIB - 1, 4 * MIB):
            body = message_of(size)
            wire.send_raw(wire.frame(body))
            assert len(wire.json()["result"][0]) == len(json.loads(body)["params"][0])
        wire.send_raw(wire.frame(message_of(4 * MIB + 1)))
        answer = wire.json()
        assert code_of(answer) == -32004 and answer["id"] is None, answer
        assert wire.ask("get_data", ident=2) == ok(["hello", 5], 2)


# SRV-16
@case("server {form}: a batch of 2000 runs, one of 2001 does not", forms=FORMS)
def long_batches(form):
    with served(form) as (_, wire):
        items = [{"jsonrpc": "2.0", "method": "echo", "params": [i], "id": i} for i in range(2001)]
        wire.send(items[:2000])
        answers = wire.json(30)
        assert sorted(answer["id"] for answer in answers) == list(range(2000))
        assert all(answer["result"] == [answer["id"]] for answer in answers)
        wire.send(items)
        assert code_of(wire.json()) == -32003
        assert wire.ask("get_data", ident=-1) == ok(["hello", 5], -1)


# STD-09
@case("server {form}: after our end of stream what is open is still answered", forms=FORMS)
def half_closed(form):
    with served(form) as (server, wire):
        wire.send({"jsonrpc": "2.0", "method": "sleep", "params": [150], "id": 1})
        wire.send({"jsonrpc": "2.0", "method": "get_data", "id": 2})
        if form.startswith("stdio:"):
            server.process.process.stdin.close()
        else:
            wire.end()
        assert wire.json() == ok(["hello", 5], 2)
        assert wire.json() == ok("slept")
        wire.ended()
        if form.startswith("stdio:"):
            assert server.process.wait() == 0


# CAN-06 CAN-09
@case("server {form}: $/cancelRequest ends a sleep early", forms=FORMS)
def cancels(form):
    with served(form) as (_, wire):
        wire.send({"jsonrpc": "2.0", "method": "sleep", "params": [8000], "id": 1.5})
        wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1.5}})
        answer = wire.json(4)
        assert code_of(answer) == -32001 and answer["id"] == 1.5, answer


@case("server {form}: counts across connections; one that dies harms no other", forms=LISTENING)
def connections(form):
    with served(form) as (server, first):
        second = server.connect()
        first.send({"jsonrpc": "2.0", "method": "update"})
        assert first.ask("count") == ok(1)
        assert second.ask("notify_sum", [1]) == ok(None)
        assert first.ask("count") == ok(2)
        second.send({"jsonrpc": "2.0", "method": "sleep", "params": [5000], "id": 1})
        second.close()
        third = server.connect()
        third.send_raw(b"Content-Length: 100\r\n\r\n{" if form == "tcp+lsp" else b'{"jsonrpc":')
        third.close()
        assert first.ask("count") == ok(2)
        server.process.kill(signal.SIGTERM)
        first.ended()
        assert server.process.wait() in (0, 143, -signal.SIGTERM)


@case("server {form}: a reset connection leaves the others served", forms=LISTENING)
def reset(form):
    with served(form) as (server, wire):
        if form == "unix":
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(server.address)
        else:
            sock = socket.create_connection(server.address)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(wire.frame(b'{"jsonrpc":"2.0","method":"emit","params":[5000],"id":1}'))
        sock.close()
        assert wire.ask("get_data") == ok(["hello", 5])


@case("server {form}: 6 MiB are asked and answered before this side reads a byte", forms=FORMS)
def both_write(form):
    with served(form) as (_, wire):
        text = "x" * 1000
        requests = b"".join(
            wire.frame(json.dumps({"jsonrpc": "2.0", "method": "echo", "params": [text], "id": i})
                       .encode())
            for i in range(6000))
        done = threading.Thread(target=wire.send_raw, args=(requests,), daemon=True)
        done.start()
        done.join(PATIENCE)
        assert not done.is_alive(), "the server stopped reading"
        seen = {wire.json()["id"] for _ in range(6000)}
        assert len(seen) == 6000


# STD-02 STD-03
@case("server stdio:lsp: header variants are read, a lost framing is told")
def headers():
    with served("stdio:lsp") as (server, wire):
        body = '{"jsonrpc":"2.0","method":"echo","params":["ü"],"id":1}'.encode()
        for head in ("Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8",
                     "content-length:%d", "Content-Type: application/vscode-jsonrpc; charset=utf-8"
                     "\r\nContent-Length: %d"):
            wire.send_raw((head % len(body)).encode() + b"\r\n\r\n" + body)
            assert wire.json() == ok(["ü"])
        wire.send_raw(b"Content-Length: nonsense\r\n\r\n{}")
        wire.ended()
        assert server.process.wait() != 2
        # The end is explained; the line may come a moment after the exit.
        server.process.stderr_line(".")


# STD-07
@case("server: stdout holds nothing but frames, a panic included")
def pure_stdout():
    asked = b'{"jsonrpc":"2.0","method":"crash","id":1}\n{"jsonrpc":"2.0","method":"crash"}\n\n'
    code, out, _ = run_once([PEER, "server", "stdio:ndjson"], asked)
    assert code == 0, code
    lines = out.decode().splitlines()
    assert len(lines) == 1 and code_of(json.loads(lines[0])) == -32603, out


@case("server: closed stdout ends it, without a panic")
def closed_stdout():
    read, write = os.pipe()
    os.close(read)
    process = Process([PEER, "server", "stdio:ndjson"], stdout=write)
    os.close(write)
    for _ in range(3):
        try:
            process.process.stdin.write(b'{"jsonrpc":"2.0","method":"get_data","id":1}\n')
        except BrokenPipeError:
            break
        time.sleep(0.05)
    process.process.stdin.close()
    process.wait()
    assert not any("panicked" in line for line in process.stderr_lines), process.stderr_lines


# ONE-01 ONE-05 ONE-07
@case("server --preset v1: 1.0 in, 1.0 out")
def version_one():
    with served("tcp", "--preset", "v1") as (_, wire):
        wire.send({"method": "sum", "params": [1, 2], "id": 1})
        assert wire.json() == {"result": 3, "error": None, "id": 1}
        wire.send({"method": "nope", "params": [], "id": "a"})
        answer = wire.json()
        assert answer["result"] is None and answer["error"]["code"] == -32601, answer
        wire.send({"method": "update", "params": [], "id": None})
        wire.send({"method": "count", "params": [], "id": 2})
        assert wire.json() == {"result": 1, "error": None, "id": 2}


# ONE-09
@case("server --preset mixed: each request is answered in its own version")
def version_mixed():
    with served("tcp", "--preset", "mixed") as (_, wire):
        wire.send({"method": "sum", "params": [1, 2], "id": 1})
        assert wire.json() == {"result": 3, "error": None, "id": 1}
        assert wire.ask("sum", [1, 2]) == ok(3)


@case("server: --preset changes what strict 2.0 answers")
def presets():
    table = [
        ("ethereum", "tcp+json", '{"jsonrpc":"2.0","method":"eth_chainId","id":true}', "0x7a69"),
        ("kodi", "tcp+json", '{"jsonrpc":"2.0","method":"echo","params":null,"id":1}', None),
        ("electrum", "tcp", '{"method":"echo","params":{"a":1},"id":1}', {"a": 1}),
        ("bitcoin-legacy", "tcp", '{"method":"echo","params":{"a":1}}', {"a": 1}),
    ]
    for preset, form, request, wanted in table:
        with served(form, "--preset", preset) as (_, wire):
            wire.send(request)
            answer = wire.json()
            assert answer["result"] == wanted and answer.get("error") is None, (preset, answer)
    with served("stdio:ndjson", "--preset", "mcp") as (_, wire):
        wire.send({"jsonrpc": "2.0", "method": "sleep", "params": [300], "id": 1})
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        wire.nothing(0.5)
        assert wire.ask("get_data", ident=2) == ok(["hello", 5], 2)
        wire.send('{"jsonrpc":"2.0","method":"get_data","id":null}')
        assert code_of(wire.json()) == -32600


@case("wrong usage, port in use, missing command: one line on stderr, exit code 2")
def usage():
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    port = held.getsockname()[1]
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    nobody = free.getsockname()[1]
    free.close()
    table = [
        [], ["serve"], ["server"], ["client"], ["proxy"], ["server", "stdio:xml"],
        ["server", "tcp://127.0.0.1"], ["server", "tcp://127.0.0.1:99999"], ["--preset"],
        ["--preset", "none", "server", "stdio:lsp"], ["server", "stdio:lsp", "more"],
        ["client", "stdio:lsp"], ["--wrong", "server", "stdio:lsp"],
        ["server", f"tcp://127.0.0.1:{port}"], ["server", "unix:/nonexistent/place/socket"],
        ["client", f"tcp://127.0.0.1:{nobody}"], ["client", "unix:/nonexistent/socket"],
        ["client", "stdio:lsp:/nonexistent/command"], ["proxy", "/nonexistent/command"],
        ["--grace-ms", "x", "proxy", "true"],
    ]
    for words in table:
        code, out, err = run_once([PEER, *words])
        assert code == 2, (words, code, err)
        assert out == b"" and len(err.decode().strip().splitlines()) == 1, (words, out, err)
    code, _, err = run_once([PEER, "proxy", "true"], env={"ANTIPHON_FRAMING": "xml"})
    assert code == 2 and len(err.splitlines()) == 1, err
    held.close()
    return f"{len(table) + 1} command lines"


@case("server unix: a socket file left behind is reused, one in use is not")
def unix_leftover():
    with temporary_folder() as folder:
        path = f"{folder}/socket"
        first = Process([PEER, "server", f"unix:{path}"])
        first.stderr_line("^listening ")
        code, _, err = run_once([PEER, "server", f"unix:{path}"])
        assert code == 2 and len(err.splitlines()) == 1, err
        first.kill()
        first.wait()
        second = Process([PEER, "server", f"unix:{path}"])
        second.stderr_line("^listening ")
        assert socket_wire("ndjson", path).ask("get_data") == ok(["hello", 5])

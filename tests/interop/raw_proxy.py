"""The proxy between this driver, as the editor, and a scripted server that can be rude."""

import json
import sys
import time

from suite import HERE, PEER, case
from wire import Process, run_once

SCRIPTED = [sys.executable, HERE / "peers" / "scripted_server.py"]
FRAMINGS = ("lsp", "ndjson")
CANCEL = {"lsp": ("$/cancelRequest", "id"), "ndjson": ("notifications/cancelled", "requestId")}


def relayed(framing, *options):
    """Starts a proxy before a scripted server; gives the process and the editor's wire."""
    env = {"ANTIPHON_FRAMING": "newline"} if framing == "ndjson" else {}
    process = Process([PEER, *options, "proxy", *SCRIPTED, framing], env=env)
    return process, process.wire(framing)


def result_of(answer, ident):
    assert answer.get("id") == ident and "result" in answer, answer
    return answer["result"]


@case("proxy {form}: ids are re-mapped, params and results keep every byte", forms=FRAMINGS)
def exact(framing):
    process, wire = relayed(framing)
    params = '{"b":1.0,"a":[18446744073709551616,1e2,"\\u00fc\\/ü€😀"],"b":-0}'
    for ident in ("7", '"7"', "1.5", '"\\u0061"', "18446744073709551616"):
        wire.send('{"jsonrpc":"2.0","id":%s,"method":"text","params":%s}' % (ident, params))
        text = wire.text()
        assert text.endswith('"id":%s}' % ident), text
        seen = json.loads(text)["result"]
        assert params in seen, seen
        theirs = json.loads(seen)["id"]
        assert isinstance(theirs, int) and theirs != json.loads(ident), seen
    for members in ('"result":[1.0,{"z":1,"a":"\\u0041"},-0]', '"result":null',
                    '"error":{"stack":"x","message":"\\u006d","code":-7,"data":1.0,"more":[]}',
                    '"error":{"code":-32000,"message":"big","data":"%s"}' % ("x" * 200_000)):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "give", "params": {"members": members}})
        text = wire.text()
        assert members in text, (members[:200], text[:300])
    wire.end()
    assert process.wait() == 0


@case("proxy {form}: absent params stay absent, notifications and answers keep their order", forms=FRAMINGS)
def order(framing):
    _, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "plain"})
    assert result_of(wire.json(), 1)["has_params"] is False
    wire.send({"jsonrpc": "2.0", "id": 2, "method": "burst", "params": [300]})
    wire.send({"jsonrpc": "2.0", "method": "told", "params": {"x": 1}})
    wire.send({"jsonrpc": "2.0", "id": 3, "method": "plain", "params": []})
    for i in range(300):
        tick = wire.json()
        assert tick == {"jsonrpc": "2.0", "method": "tick", "params": [i]}, tick
    assert result_of(wire.json(), 2) == 300
    assert wire.json()["params"] == ["told", {"x": 1}]
    assert result_of(wire.json(), 3)["has_params"] is True


@case("proxy {form}: the server's requests reach the editor, results and errors go back", forms=FRAMINGS)
def server_requests(framing):
    _, wire = relayed(framing)
    for their_id in ("srv-1", 1, 0, "x" * 500):
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "ask",
                   "params": {"id": their_id, "method": "workspace/configuration",
                              "params": {"items": [1.0]}}})
        request = wire.json()
        assert request["method"] == "workspace/configuration", request
        assert request["params"] == {"items": [1.0]}, request
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": [None]})
        assert result_of(wire.json(), 1) == {"result": [None]}
    error = {"code": -32601, "message": "no", "data": {"x": 1}}
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "ask",
               "params": {"id": 9, "method": "m", "params": []}})
    wire.send({"jsonrpc": "2.0", "id": wire.json()["id"], "error": error})
    assert result_of(wire.json(), 1) == {"error": error}


# CAN-03 CAN-04
@case("proxy {form}: the editor's cancel reaches the server under the server's id", forms=FRAMINGS)
def editor_cancels(framing):
    _, wire = relayed(framing)
    method, member = CANCEL[framing]
    for ident in ("s", 41):
        wire.send({"jsonrpc": "2.0", "id": ident, "method": "slow"})
        wire.send({"jsonrpc": "2.0", "id": "p", "method": "plain"})
        result_of(wire.json(), "p")
        params = {member: ident}
        if framing == "ndjson":
            params["reason"] = "enough"
        wire.send({"jsonrpc": "2.0", "method": method, "params": params})
        seen = wire.json()["params"]
        assert seen["fits"] is True, seen
        if framing == "lsp":
            answer = wire.json()
            assert answer["id"] == ident and answer["error"] == {
                "code": -32800, "message": "cancelled by request"}, answer
        else:
            assert seen["params"]["reason"] == "enough", seen
    # A cancel for nothing is dropped, and nothing else happens.
    wire.send({"jsonrpc": "2.0", "method": method, "params": {member: "nothing"}})
    wire.send({"jsonrpc": "2.0", "id": "p", "method": "plain"})
    result_of(wire.json(), "p")
    wire.nothing()


@case("proxy {form}: the server's cancel reaches the editor under the editor's id", forms=FRAMINGS)
def server_cancels(framing):
    _, wire = relayed(framing)
    method, member = CANCEL[framing]
    wire.send({"jsonrpc": "2.0", "id": 5, "method": "ask_and_cancel", "params": {"id": "srv-9"}})
    request, cancel = wire.json(), wire.json()
    assert request["method"] == "never" and cancel["method"] == method, (request, cancel)
    assert cancel["params"][member] == request["id"], (request, cancel)
    if framing == "lsp":
        error = {"code": -32800, "message": "stopped"}
        wire.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        assert result_of(wire.json(), 5) == {"error": error}
    else:
        assert result_of(wire.json(), 5) == "cancelled"


@case("proxy {form}: the server's exit code and its end reach the editor", forms=FRAMINGS)
def exit_codes(framing):
    for code in (0, 1, 77):
        process, wire = relayed(framing)
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "slow"})
        wire.send({"jsonrpc": "2.0", "method": "exit", "params": [code]})
        answer = wire.json()
        assert answer["id"] == 1 and answer["error"]["code"] == -32603, answer
        wire.ended()
        assert process.wait() == code
    process, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "method": "die"})
    wire.ended()
    assert process.wait() == 128 + 9
    process, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "method": "half"})
    wire.ended()
    assert process.wait() == 1
    process.stderr_line("server")


@case("proxy {form}: the editor's end of input ends the server, in time", forms=FRAMINGS)
def editor_ends(framing):
    process, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "linger", "params": [3]})
    result_of(wire.json(), 1)
    wire.end()
    assert wire.json()["method"] == "last_words"
    assert process.wait() == 3
    process, wire = relayed(framing, "--grace-ms", "300")
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "stubborn"})
    result_of(wire.json(), 1)
    begin = time.monotonic()
    wire.end()
    assert process.wait() == 128 + 9
    assert 0.2 < time.monotonic() - begin < 3


@case("proxy {form}: 10 MiB of the server's log pass through stderr and block nothing", forms=FRAMINGS)
def logs(framing):
    process, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "stderr", "params": [10 << 20]})
    result_of(wire.json(), 1)
    wire.end()
    assert process.wait() == 0
    process.drained.join(10)
    assert sum(len(line) + 1 for line in process.stderr_lines) >= 10 << 20


@case("proxy {form}: 30 MiB wait while the server does not read, and none is lost", forms=FRAMINGS)
def deaf_server(framing):
    _, wire = relayed(framing)
    wire.send({"jsonrpc": "2.0", "id": 0, "method": "deaf", "params": [700]})
    text = "ü" * 150_000
    for ident in range(1, 101):
        wire.send({"jsonrpc": "2.0", "id": ident, "method": "slow", "params": [text]})
    wire.send({"jsonrpc": "2.0", "id": 101, "method": "plain"})
    result_of(wire.json(), 0)
    result_of(wire.json(20), 101)


@case("proxy {form}: garbage from either side is reported and harms no neighbour", forms=FRAMINGS)
def garbage(framing):
    process, wire = relayed(framing)
    wire.send("{nonsense")
    assert wire.json()["error"]["code"] == -32700
    lines = ["{nonsense", '{"jsonrpc":"2.0","id":99,"result":1}', '{"jsonrpc":"2.0"}']
    wire.send({"jsonrpc": "2.0", "id": 1, "method": "say", "params": {"lines": lines}})
    result_of(wire.json(), 1)
    # The scripted server reports the two errors that answer its malformed lines.
    told = [wire.json(), wire.json()]
    assert all(each["method"] == "unmatched" for each in told), told
    # The proxy itself reports each of the server's three lines, and the editor's, on stderr.
    for _ in range(3):
        process.stderr_line("")


@case("proxy ndjson: the items of a batch are relayed, and answered as one array")
def batches():
    _, wire = relayed("ndjson")
    wire.send([{"jsonrpc": "2.0", "id": "a", "method": "plain", "params": [1]},
               {"jsonrpc": "2.0", "method": "told"},
               {"jsonrpc": "2.0", "id": 2, "method": "plain", "params": [2]}])
    told = wire.json()
    assert told["method"] == "seen", told
    answer = wire.json()
    assert [item["id"] for item in answer] == ["a", 2], answer
    assert [item["result"]["params"] for item in answer] == [[1], [2]]


@case("proxy ndjson: a last line without its line feed is relayed")
def last_line():
    words = [PEER, "proxy", *SCRIPTED, "ndjson"]
    code, out, _ = run_once(words, b'{"jsonrpc":"2.0","id":1,"method":"plain"}',
                            env={"ANTIPHON_FRAMING": "newline"})
    assert code == 0 and result_of(json.loads(out), 1)["method"] == "plain", out


@case("proxy before a proxy before antiphon's server: everything still fits")
def nested():
    env = {"ANTIPHON_FRAMING": "newline"}
    process = Process([PEER, "proxy", PEER, "proxy", PEER, "server", "stdio:ndjson"], env=env)
    wire = process.wire("ndjson")
    for ident in range(64):
        wire.send({"jsonrpc": "2.0", "method": "callback", "params": ["c", [ident]], "id": ident})
    answers = []
    # The first may be answered before the last calls back.
    for _ in range(2 * 64):
        message = wire.json()
        if "method" in message:
            wire.send({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]})
        else:
            answers.append(message)
    assert len(answers) == 64
    assert all(answer["result"] == [answer["id"]] for answer in answers), answers[:2]
    wire.end()
    assert process.wait() == 0


@case("proxy: a null id, a shared id and another dialect's cancel pass, where told by --preset")
def dialects():
    _, wire = relayed("ndjson")
    wire.send('{"jsonrpc":"2.0","id":null,"method":"plain"}')
    assert result_of(wire.json(), None)["method"] == "plain"
    wire.send('{"jsonrpc":"2.0","id":1,"method":"slow"}\n{"jsonrpc":"2.0","id":1,"method":"plain"}')
    assert result_of(wire.json(), 1)["method"] == "plain"
    _, wire = relayed("ndjson", "--preset", "acp")
    wire.send({"jsonrpc": "2.0", "id": "s", "method": "slow"})
    wire.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "s"}})
    seen = wire.json()
    assert seen["method"] == "seen" and seen["params"][0] == "$/cancel_request", seen
    assert isinstance(seen["params"][1]["requestId"], int), seen


@case("proxy: an answer with both members is passed on with --lenient only")
def lenient():
    members = '"result":1,"error":null'
    for options in ([], ["--lenient"]):
        _, wire = relayed("lsp", *options)
        wire.send({"jsonrpc": "2.0", "id": 1, "method": "give", "params": {"members": members}})
        answer = wire.json()
        if options:
            assert answer["result"] == 1, answer
        else:
            assert answer["error"]["code"] == -32603, answer

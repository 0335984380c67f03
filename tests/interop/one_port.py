"""HTTP and WebSocket on one port of ours, behind a token: clients of other authors, in any order on one connection."""

import shutil

from browser import Page
from checklist import same
from libraries import js, py
from suite import PEER, case, node_env
from wire import Process, run_once

TOKEN, FOREIGN = "s3cret", "http://evil.example"
CALL = '{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}'
RUNTIMES = ("threads", "tokio", "smol")
TIMEOUT = 90


def served(form, *options):
    """Starts a server with a token; gives its URL."""
    runtime = () if form == "threads" else ("--runtime", form)
    process = Process([PEER, *runtime, "--token", TOKEN, *options, "server", "http://127.0.0.1:0/"])
    return process.stderr_line(r"^listening (\S+)$").group(1)


def driven(command, url):
    code, out, err = run_once([*command, url, TOKEN, FOREIGN], env=node_env(), timeout=TIMEOUT)
    assert code == 0 and out.startswith(b"ok "), (code, out[-500:], err.decode()[-3000:])
    return out.decode().strip()


# USE-12 USE-13
@case("one port: aiohttp, each order on one connection that becomes a WebSocket, and websockets, on {form}",
      ("pypi:aiohttp", "pypi:websockets", "target:http"), RUNTIMES)
def python(form):
    return driven(py("one_port_client.py"), served(form))


# USE-12 USE-13
@case("one port: Node and ws, on one connection with refused upgrades between, on {form}",
      ("npm:ws", "target:http"), RUNTIMES)
def node(form):
    return driven(js("one_port_client.cjs"), served(form))


# USE-12 USE-13
@case("one port: curl, on one connection with a large body that is refused unread, on {form}",
      ("target:http",), RUNTIMES)
def curl(form):
    assert shutil.which("curl"), "curl is not there"
    url = served(form)
    json = ("-H", "content-type: application/json")
    bearer = ("-H", f"authorization: Bearer {TOKEN}")
    upgrade = ("-H", "connection: upgrade", "-H", "upgrade: websocket", "-H", "sec-websocket-version: 13",
               "-H", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    steps = [(("-d", CALL, *json, *bearer), "200"), (("-d", CALL, *json), "401"),
             (upgrade, "401"), ((*upgrade, *bearer, "-H", f"origin: {FOREIGN}"), "403"),
             (("-d", CALL, *json, *bearer), "200"), (("-I",), "405"), (("-d", CALL, *json, *bearer), "200")]
    health = (("-X", "GET"), "200")
    command = ["curl", "-sS", "-m", "20"]
    for at, (words, _) in enumerate([*steps, health]):
        where = url + "health" if at == len(steps) else url
        command += [*(["--next", "-sS", "-m", "20"] if at else []), *words, "-o", "/dev/null",
                    "-w", "%{http_code} %{num_connects}\n", where]
    code, out, err = run_once(command, timeout=TIMEOUT)
    lines = out.decode().split("\n")[:-1]
    same([line.split()[0] for line in lines], [status for _, status in [*steps, health]])
    same((code, sum(int(line.split()[1]) for line in lines)), (0, 1))
    # A body that nobody may send is not asked for.
    with_expect = ["curl", "-sS", "-m", "20", "-o", "/dev/null", "-H", "expect: 100-continue", *json,
                   "--data-binary", "@-", "-w", "%{http_code} %{size_upload}", url]
    code, out, err = run_once(with_expect, stdin=b" " * (3 << 20), timeout=TIMEOUT)
    same(out.decode(), "401 0")
    return f"{len(lines)} requests, one connection"


PAGE = """<!doctype html><meta charset="utf-8"><script>
const [http, ws, token] = TARGETS;
const call = '{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}';
async function ask(headers) {
    headers["Content-Type"] = "application/json";
    const reply = await fetch(http, {method: "POST", headers, body: call});
    return reply.ok ? (await reply.json()).result : reply.status;
}
function over(protocols) {
    return new Promise(done => {
        const socket = new WebSocket(ws, protocols);
        socket.onopen = () => socket.send(call);
        socket.onmessage = message => { done([JSON.parse(message.data).result, socket.protocol]); socket.close(); };
        socket.onclose = () => done("refused");
    });
}
addEventListener("load", async () => {
    const seen = [], bearer = {Authorization: "Bearer " + token};
    for (const one of [() => ask({...bearer}), () => over(["jsonrpc", "token." + token]), () => ask({}),
                       () => over(["jsonrpc"]), () => ask({...bearer}), () => over(["jsonrpc", "token.wrong"])]) {
        try { seen.push(await one()); } catch (error) { seen.push("refused"); }
    }
    await fetch("/done", {method: "POST", body: JSON.stringify(seen)});
});
</script>"""


# USE-12 USE-13 SEC-08
@case("one port: Chromium, pages of an allowed and of a foreign origin, a token by subprotocol, on {form}",
      ("browser", "target:http"), RUNTIMES)
def chromium(form):
    for is_allowed in (True, False):
        page = Page()
        url = served(form, "--origin", page.origin if is_allowed else "http://app.example")
        seen = page.show(PAGE, [url, "ws" + url[4:], TOKEN])
        wanted = [19, [19, "jsonrpc"], 401, "refused", 19, "refused"] if is_allowed else ["refused"] * 6
        same(seen, wanted)

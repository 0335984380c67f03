"""HTTP and WebSocket on one port of ours, behind a token: clients of other authors, in any order on one connection."""

import os
import pathlib
import selectors
import shutil
import socket
import time

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
    # With one heap the memory in use hardly depends on which thread freed what.
    process = Process([PEER, *runtime, "--token", TOKEN, *options, "server", "http://127.0.0.1:0/"],
                      env={"MALLOC_ARENA_MAX": "1"})
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


def places(pid):
    """Open descriptors, and the memory in use in KB, of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{pid}/fd")), int(memory.split()[1])


HEAD = b"%s / HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
BEARER = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
UPGRADE = (b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
LARGE = b"Content-Length: 1000000000\r\n"
# What a client sends before it waits for the status, and the status.
WAVE = [(HEAD % (b"GET", UPGRADE), b"401"), (HEAD % (b"GET", UPGRADE + BEARER), b"101"),
        (HEAD % (b"POST", b"Expect: 100-continue\r\n" + LARGE), b"401"),
        # Half a body and half a head, of clients that go away then.
        (HEAD % (b"POST", BEARER + b"Content-Length: 100\r\n") + b'{"jsonrpc"', None),
        (b"POST / HTTP/1.1\r\nHost: loc", None)]


def wave(port, count):
    """So many clients at once of each kind, all of which then go away."""
    with selectors.DefaultSelector() as all_of_them:
        due = time.monotonic() + 60
        for at in range(count):
            sent, status = WAVE[at % len(WAVE)]
            client = socket.create_connection(("127.0.0.1", port), timeout=20)
            client.sendall(sent)
            all_of_them.register(client, selectors.EVENT_READ, status)
        waiting = sum(key.data is not None for key in all_of_them.get_map().values())
        answered = []
        while len(answered) < waiting:
            assert time.monotonic() < due, f"{len(answered)} of {waiting} were answered"
            for key, _ in all_of_them.select(1):
                all_of_them.unregister(key.fileobj)
                # A slow head may be cut before all others are answered.
                if key.data is None:
                    key.fileobj.close()
                    continue
                same(key.fileobj.recv(4096)[9:12], key.data)
                answered.append(key.fileobj)
        for client in [*answered, *(key.fileobj for key in all_of_them.get_map().values())]:
            client.close()


# USE-12 USE-13 SEC-10
@case("one port: a thousand upgrades, refused bodies and cut requests at once leave no descriptor and no memory, on {form}",
      ("target:http",), RUNTIMES)
def leaks(form):
    url = served(form)
    port, pid = int(url.rsplit(":", 1)[1].strip("/")), Process.alive[-1].process.pid

    def settled(wanted):
        due = time.monotonic() + 20
        while places(pid)[0] > wanted:
            assert time.monotonic() < due, (places(pid), wanted)
            time.sleep(0.05)
        return places(pid)

    wave(port, 50)
    time.sleep(0.5)
    before = settled(places(pid)[0])
    # On threads the clients that stop half-way hold their places until their deadline: ten seconds a wave.
    waves = 2 if form == "threads" else 4
    for _ in range(waves):
        wave(port, 2500)
    first = settled(before[0])
    for _ in range(waves):
        wave(port, 2500)
    last = settled(before[0])
    # What 2500 at once have cost stays with the allocator; 10 000 more leave less than 850 bytes each.
    assert last[1] < first[1] + 8192, (before, first, last)
    code, out, _ = run_once(["curl", "-sS", "-m", "20", url + "health"], timeout=TIMEOUT)
    same((code, out), (0, b"ok\n"))
    return f"{last[0]} descriptors, {last[1]} KB"

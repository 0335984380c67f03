"""The points that must be seen of a foreign peer before it counts, and their names.

Every foreign program speaks the methods of tests/peer/README.md: a foreign server offers them, a
foreign client calls them. So each fits the other, and antiphon's server and client besides.

A foreign client prints `seen POINT` for each point that held and `ok` at the end. A foreign server
is driven here, by the contract's client. A case names the points that the peer has, and fails if
one of them is not seen, or another one is.
"""

import time

from record import between
from suite import LSP, MCP, PEER, node_env
from wire import run_once

# In the order in which they are listed everywhere.
POINTS = (
    "position",      # a call with params by position
    "name",          # a call with params by name
    "error",         # an error with code, message and data
    "notification",  # a notification, seen to have arrived
    "batch",         # a batch with a call, a notification and an error
    "order",         # 100 calls under way at once, answered in another order
    "text",          # more than 1 MiB of text that is not ASCII, there and back
    "cancel",        # a cancelled call
    "back",          # a call from the server to the client
)
ALL = frozenset(POINTS)
TEXT = "äß€😀" * 100_000
FAILURE = {"code": 7, "message": "failed", "data": {"x": [1, "é€"]}}
TIMEOUT = 30


def but(*absent):
    """All points but those that the peer cannot do."""
    unknown = set(absent) - ALL
    assert not unknown, unknown
    return ALL - set(absent)


def shown(seen, wanted):
    """One line for the case; fails if what was seen is not exactly what was wanted."""
    missing = [point for point in POINTS if point in wanted and point not in seen]
    unexpected = sorted(set(seen) - set(wanted))
    assert not missing and not unexpected, f"not seen: {missing}, not expected: {unexpected}"
    return " ".join(point for point in POINTS if point in seen)


def client_sees(command, wanted, env=None):
    """Runs a foreign client to its end; gives the points that it saw."""
    # record.py, if it is asked for, goes before our program, wherever that stands in the command.
    ours = next((at for at, word in enumerate(command) if at and word in (PEER, LSP, MCP)), len(command))
    command = [*command[:ours], *between(command[ours:])] if ours < len(command) else command
    code, out, err = run_once(command, env={**node_env(), **(env or {})}, timeout=TIMEOUT)
    lines = out.decode(errors="replace").split("\n")
    said = f"exit code {code}; {lines[-5:]}; {err.decode(errors='replace')[-2000:]}"
    assert code == 0 and lines[-2:] == ["ok", ""], said
    seen = [line[len("seen "):] for line in lines if line.startswith("seen ")]
    return shown(seen, wanted)


def server_seen(client, wanted, cancelled=-32800):
    """Drives a foreign server through antiphon's client; gives the points that were seen.

    `cancelled` is what becomes of a cancelled call: an error code, or "cancelled" where the
    dialect wants no answer.
    """
    steps = {"position": position, "name": name, "error": error, "notification": notification,
             "batch": batch, "order": order, "text": text, "back": back,
             "cancel": lambda client: cancel(client, cancelled)}
    seen = []
    for point in POINTS:
        if point in wanted and point not in seen:
            steps[point](client)
            seen.append(point)
    return shown(seen, wanted)


def same(got, wanted):
    assert got == wanted, f"{str(got)[:500]} instead of {str(wanted)[:500]}"


def position(client):
    same(client.call("subtract", [42, 23]), {"result": 19})


def name(client):
    same(client.call("subtract", {"subtrahend": 23, "minuend": 42}), {"result": 19})


def error(client):
    same(client.call("fail", FAILURE), {"error": FAILURE})
    # The wording is the peer's own.
    same(client.call("nope", [])["error"]["code"], -32601)


def notification(client):
    for _ in range(3):
        same(client.do("notify", method="update", params=[1]), {"ok": True})
    count_becomes(client, 3)


def batch(client):
    items = [{"method": "subtract", "params": [5, 3]},
             {"method": "update", "params": [1], "notify": True},
             {"method": "nope", "params": []},
             {"method": "echo", "params": ["é"]}]
    answers = client.do("batch", items=items)["batch"]
    same([answers[0], answers[1]["error"]["code"], answers[2]],
         [{"result": 2}, -32601, {"result": ["é"]}])


def order(client):
    """50 sleeps, the longest first, between 50 calls whose answers tell them apart."""
    items, wanted = [], []
    for i in range(50):
        items += [{"method": "sleep", "params": [400 - 8 * i]}, {"method": "echo", "params": [i]}]
        wanted += ["slept", [i]]
    order_of(client, items, wanted)


def order_of(client, items, wanted):
    """Makes 100 calls at once, of which the first takes longest."""
    done = client.do("calls", items=items, timeout=20)
    same(done["calls"], [{"result": result} for result in wanted])
    same(sorted(done["order"]), list(range(100)))
    assert done["order"].index(0) > 0, f"answered in the order of the calls: {done['order']}"


def text(client):
    same(client.call("echo", [TEXT], 20), {"result": [TEXT]})


def cancel(client, cancelled):
    answer = client.call("sleep", [9000], cancel_after_ms=100)
    same(answer if cancelled == "cancelled" else answer["error"]["code"],
         {"cancelled": True} if cancelled == "cancelled" else cancelled)
    same(client.call("echo", ["after"]), {"result": ["after"]})


def back(client):
    client.do("answer", method="who", result=["me", "é€"])
    same(client.call("callback", ["who", ["q"]]), {"result": ["me", "é€"]})


def count_becomes(client, wanted):
    """Calls until the count is right: a notification has no answer, and may arrive after a later call."""
    deadline = time.monotonic() + 5
    while (counted := client.call("count", [])) != {"result": wanted}:
        assert "result" in counted and time.monotonic() < deadline, counted
        time.sleep(0.01)

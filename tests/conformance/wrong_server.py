#!/usr/bin/env python3
"""A small JSON-RPC 2.0 server on standard input and output, one message a line, that is right unless told to be wrong.

    wrong_server.py [FAULT]

Each fault is one that servers have had. wrong_server_check.py plays the cases against this server with each fault, and
wants exactly those to fail that the fault is about. That shows that play.py notices such faults.
"""
import json
import sys

FAULTS = {
    "ids-as-floats": "an id that is a number comes back as a floating-point number",
    "null-id-left-out": "a reply whose id should be null has no id member",
    "answers-notifications": "a notification is answered, with a null id",
    "one-error-for-a-batch": "one invalid element makes the whole batch invalid",
    "empty-array-for-an-empty-batch": "an empty batch is answered by an empty array",
    "takes-nan": "NaN and Infinity are taken for numbers",
    "null-error-beside-a-result": "a result is accompanied by a null error",
    "ends-at-bad-json": "text that is no JSON ends the server",
    "ignores-repeated-members": "of a repeated member the last one counts",
}
MAX_DEPTH = 128
CANCEL = "$/cancelRequest"


class Number(str):
    """A number by its text."""


class Object(dict):
    """An object that remembers which names were repeated."""

    def __init__(self, pairs):
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = {name for name in names if names.count(name) > 1} & {"jsonrpc", "method", "params", "id"}


def depth(text):
    """How many brackets are open at once, at most."""
    deepest = level = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside, escaped = escaped or character != '"', character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def read(line, fault):
    text = line.decode("utf-8").removeprefix("\ufeff")
    if depth(text) > MAX_DEPTH:
        raise ValueError("too deep")
    constant = Number if fault == "takes-nan" else int
    return json.loads(text.strip(" \t\r\n"), parse_int=Number, parse_float=Number, parse_constant=constant,
                      object_pairs_hook=Object)


def write(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{write(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


def error(code, message, id=None):
    return {"jsonrpc": "2.0", "error": {"code": Number(code), "message": message}, "id": id}


def result(method, params):
    """What a standard method answers; a KeyError for any other."""
    if method == "subtract":
        pair = params if isinstance(params, list) else [params["minuend"], params["subtrahend"]]
        return Number(int(pair[0]) - int(pair[1]))
    if method == "sum":
        return Number(sum(map(int, params)))
    return {"get_data": ["hello", Number(5)], "echo": params, "update": None, "notify_hello": None,
            "notify_sum": None}[method]


def cancelled(batch):
    """The ids that the cancels in a batch name, as their text."""
    for call in batch:
        if isinstance(call, dict) and call.get("method") == CANCEL and isinstance(call.get("params"), dict):
            yield write(call["params"].get("id"))


def answer(call, fault, dead=()):
    """The reply to one item; None for what is not answered."""
    repeated = getattr(call, "repeated", set()) if fault != "ignores-repeated-members" else set()
    known = call.get("id") if isinstance(call, dict) and "id" not in repeated else None
    known = known if not isinstance(known, (bool, dict, list)) else None
    if isinstance(call, dict) and "method" not in call and ("result" in call or "error" in call):
        return None
    is_valid = (isinstance(call, dict) and call.get("jsonrpc") == "2.0" and not isinstance(call["jsonrpc"], Number)
                and isinstance(call.get("method"), str) and not isinstance(call["method"], Number)
                and isinstance(call.get("params", []), (dict, list)) and not repeated
                and not isinstance(call.get("id"), (bool, dict, list))
                and call["method"].encode("utf-8", "surrogatepass").decode("utf-8", "replace") == call["method"])
    if not is_valid:
        return error("-32600", "Invalid Request", known)
    if call["method"] == CANCEL:
        # Everything is answered at once, so only a request of the same batch can be cancelled.
        return {"jsonrpc": "2.0", "result": None, "id": known} if "id" in call else None
    if "id" not in call and fault != "answers-notifications":
        return None
    if "id" in call and write(known) in dead:
        return error("-32001", "Request cancelled", known)
    if fault == "ids-as-floats" and isinstance(known, Number):
        known = Number(repr(float(known)))
    try:
        value = result(call["method"], call.get("params"))
    except KeyError:
        return error("-32601", "Method not found", known)
    except (ValueError, TypeError, IndexError):
        return error("-32602", "Invalid params", known)
    beside = {"error": None} if fault == "null-error-beside-a-result" else {}
    return {"jsonrpc": "2.0", "result": value, **beside, "id": known}


def reply(line, fault):
    """The reply to one line; None if there is none."""
    try:
        message = read(line, fault)
    except (ValueError, RecursionError):
        if fault == "ends-at-bad-json":
            sys.exit(1)
        return error("-32700", "Parse error")
    if not isinstance(message, list):
        return answer(message, fault)
    if not message:
        return [] if fault == "empty-array-for-an-empty-batch" else error("-32600", "Invalid Request")
    dead = set(cancelled(message))
    replies = [reply for reply in (answer(call, fault, dead) for call in message) if reply is not None]
    if fault == "one-error-for-a-batch" and any(one.get("error", {}).get("code") == "-32600" for one in replies):
        return error("-32600", "Invalid Request")
    return replies or None


def main(arguments):
    fault = arguments[0] if arguments else None
    if len(arguments) > 1 or fault not in {None, *FAULTS}:
        print(__doc__.strip(), *(f"  {name}: {what}" for name, what in FAULTS.items()), sep="\n", file=sys.stderr)
        return 2
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        said = reply(line, fault)
        if said is not None:
            if fault == "null-id-left-out" and isinstance(said, dict) and said["id"] is None:
                del said["id"]
            sys.stdout.buffer.write(write(said).encode("utf-8", "surrogatepass") + b"\n")
            sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

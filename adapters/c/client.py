#!/usr/bin/env python3
"""Plays the strict cases of a client through the C interface: client.py LIBRARY [TEXT], those with TEXT in their name

Each step is one function, or input. The codes, the events and the output have to be those of the case. Calls are given their numbers
as tags. Prints each failure, and ends with `N passed, M failed, K not applicable`.
"""
import collections
import itertools
import json
import pathlib
import sys
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, string_at

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/conformance"))
import cases  # noqa: E402

NEVER = 2**64 - 1
FRAMINGS = {"newline": 0, "content-length": 1, "concatenated": 2}
# Of each kind of event but nothing: what a case calls it.
KINDS = ["", "request", "notification", "ok", "err", "invalid", "timed-out", "missing", "unsent", "aborted", "cancelled", "malformed",
         "refused", "unmatched", "closed"]
CODES = {8: "NotOpen", 20: "Closed", 21: "OutboxFull", 22: "TooManyCalls", 23: "TooLarge"}


class Apart(Exception):
    """Why a case does not apply."""


class Text(Structure):
    _fields_ = [("bytes", c_void_p), ("len", c_size_t)]

    def read(self):
        return string_at(self.bytes, self.len).decode() if self.bytes else ""


class Event(Structure):
    _fields_ = [("kind", c_uint32), ("owed", c_uint32), ("request", c_uint64), ("call", c_uint64), ("tag", c_uint64),
                ("code", c_int64), ("batch_index", c_int64), ("method", Text), ("value", Text), ("id", Text), ("text", Text)]


class State(Structure):
    _fields_ = [("is_closed", c_uint32), ("wants_input", c_uint32), ("calls_open", c_size_t), ("requests_open", c_size_t)]


def declared(library):
    """The functions, by name, with the types of their arguments."""
    text, count = (c_char_p, c_char_p, c_size_t), POINTER(c_uint64)
    types = {
        "config_new": (c_char_p, POINTER(c_void_p)), "config_set": (c_void_p, c_char_p, c_uint64), "config_free": (c_void_p,),
        "new": (c_void_p, POINTER(c_void_p)), "free": (c_void_p,), "state_of": (c_void_p, POINTER(State)),
        "input": (c_void_p, c_char_p, c_size_t, POINTER(c_size_t)), "input_end": (c_void_p,), "time": (c_void_p, c_uint64),
        "timeout": (c_void_p, count),
        "next_event": (c_void_p, POINTER(Event)), "respond": (c_void_p, c_uint64, c_char_p, c_size_t),
        "call": (c_void_p, *text, c_uint64, c_uint64, count), "notify": (c_void_p, *text), "cancel": (c_void_p, c_uint64, count),
        "ask_cancel": (c_void_p, c_uint64), "deadline": (c_void_p, c_uint64, c_uint64), "batch": (c_void_p, c_uint64),
        "batch_call": (c_void_p, *text, c_uint64), "batch_notify": (c_void_p, *text), "batch_send": (c_void_p, count, c_size_t),
        "output": (c_void_p, POINTER(c_void_p), POINTER(c_size_t)), "output_sent": (c_void_p, c_size_t), "drain": (c_void_p,),
        "close": (c_void_p,),
    }
    for name, arguments in types.items():
        function = getattr(library, f"antiphon_{name}")
        function.argtypes, function.restype = arguments, c_int32
    return {name: getattr(library, f"antiphon_{name}") for name in types}


class Player:
    def __init__(self, functions, case, framing):
        self.functions, self.framing, self.conn = functions, framing, c_void_p()
        # The numbers of the calls, in their order; the requests of the peer by their ids.
        self.calls, self.requests, self.given = [0], {}, b""
        config = c_void_p()
        functions["config_new"](b"strict", byref(config))
        functions["config_set"](config, b"framing", FRAMINGS[framing])
        for name, value in case["settings"].items():
            if not isinstance(value, int) or functions["config_set"](config, name.encode(), value):
                raise Apart("the program cannot be set so")
        functions["new"](config, byref(self.conn))
        functions["config_free"](config)

    def do(self, name, *given):
        return self.functions[name](self.conn, *given)

    def text(self, method, params):
        method = json.loads(method) if method.startswith('"') else method
        return method.encode(), params.encode() if params else None, len(params.encode()) if params else 0

    def command(self, name, *words):
        """Does what a step says, and returns the code."""
        if name in ("hold", "release"):
            raise Apart("all output is sent at once")
        if name in ("cancel", "ask_cancel", "deadline"):
            call = self.calls[int(words[0])] if int(words[0]) < len(self.calls) else 0
            if name == "cancel":
                return self.do(name, call, byref(c_uint64()))
            if len(words) > 1 and name == "ask_cancel":
                raise Apart("C gives no reason for a cancel")
            if name == "ask_cancel":
                return self.do(name, call)
            return self.do(name, call, NEVER if words[1] == "never" else int(words[1]) * 10**6)
        if name == "call":
            options = list(words[1:])
            params = options.pop(0) if options and options[0] not in ("id", "deadline") else None
            options = dict(zip(options[::2], options[1::2]))
            if "id" in options:
                raise Apart("C chooses no ids")
            number, deadline = c_uint64(), int(options["deadline"]) * 10**6 if "deadline" in options else NEVER
            code = self.do("call", *self.text(words[0], params), deadline, len(self.calls), byref(number))
            self.calls += [number.value] * (code == 0)
            return code
        if name == "batch":
            return self.batch(list(words))
        if name == "respond":
            return self.do(name, self.requests[words[0]], words[1].encode(), len(words[1].encode()))
        if name == "notify":
            return self.do(name, *self.text(words[0], words[1] if len(words) > 1 else None))
        if name == "time":
            return self.do(name, int(words[0]) * 10**6)
        if name in ("eof", "drain", "close"):
            return self.do("input_end" if name == "eof" else name)
        raise Apart(f"C has no {name}")

    def batch(self, words):
        deadline = int(words[1]) * 10**6 if words[:1] == ["deadline"] else NEVER
        words = words[2:] if words[:1] == ["deadline"] else words
        code, tag = self.do("batch", deadline), len(self.calls)
        while words and not code:
            kind, method = words.pop(0), words.pop(0)
            params = words.pop(0) if words and words[0] not in ("call", "notify") else None
            is_call = kind == "call"
            code = self.do(f"batch_{kind}", *self.text(method, params), *[tag] * is_call)
            tag += is_call
        numbers = (c_uint64 * (tag - len(self.calls) + 1))()
        code = code or self.do("batch_send", numbers, len(numbers))
        self.calls += list(numbers)[:-1] if not code else []
        return code

    def events(self):
        """The events that there are now, as far as the lines of cases are compared."""
        event, taken = Event(), c_size_t()
        self.do("input", self.given, len(self.given), byref(taken))
        self.given = self.given[taken.value:]
        while not self.do("next_event", byref(event)) and event.kind:
            kind, value = KINDS[event.kind], event.value.read()
            if kind == "request":
                self.requests[event.id.read()] = event.request
            if 3 <= event.kind <= 9:
                more = {"ok": f" {value}", "err": f" {event.code} {json.dumps(event.text.read(), ensure_ascii=False)}"}.get(kind, "")
                kind = f"response {event.tag} {kind}{more}"
            yield kind

    def step(self, step):
        """Plays one step; returns what was seen and what was wanted, as lists of the same kind."""
        seen = []
        if "do" in step and (code := self.command(*step["do"])):
            seen.append(f"error {CODES.get(code, '')}".strip())
        for kind, body in step.get("receive", []):
            if kind == "message" and self.framing == "newline" and b"\n" in body:
                raise Apart("a message cannot stand in this framing")
            self.given += body + b"\n" if kind == "message" else body
        seen.extend(self.events())
        wanted = [event["line"] for event in step.get("events", [])]
        # Of a line only what C tells is compared.
        seen = [line if line.startswith(got) else got for got, line in itertools.zip_longest(seen, wanted, fillvalue="nothing")]
        waiting, size = c_void_p(), c_size_t()
        self.do("output", byref(waiting), byref(size))
        sent = string_at(waiting, size.value) if size.value else b""
        self.do("output_sent", size.value)
        state, due = State(), c_uint64()
        self.do("state_of", byref(state))
        self.do("timeout", byref(due))
        timeout = "never" if due.value == NEVER else str(due.value // 10**6)
        now = {"timeout": timeout, "waiting": "0", **{name: str(getattr(state, name)) for name, _ in State._fields_}}
        words = {"yes": "1", "no": "0"}
        states = {name: words.get(value, value) for name, value in step.get("state", {}).items() if name in now}
        return (seen, sent, {name: now[name] for name in states}), (
            wanted, b"".join(text + b"\n" for text in step.get("sends", [])), states)


def play(functions, case):
    """Plays a case; returns the step that failed, with what was seen and wanted."""
    framing = "newline" if case["framing"] == "any" else case["framing"]
    if case["role"] != "client" or case["preset"] != "strict":
        raise Apart("it is no strict case of a client")
    if framing != "newline" or "exchange" in case:
        raise Apart("it is about another framing")
    player = Player(functions, case, framing)
    try:
        for step in case["steps"]:
            seen, wanted = player.step(step)
            if seen != wanted:
                return step.get("do", step.get("receive")), seen, wanted
    finally:
        player.do("free")
    return None


def main(library, only=""):
    functions = declared(CDLL(library))
    passed, failed, apart = 0, 0, collections.Counter()
    for case in cases.read_all():
        try:
            wrong = play(functions, case) if only in case["name"] else None
        except Apart as why:
            apart[str(why)] += 1
            continue
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
        if wrong:
            step, seen, wanted = wrong
            print(f"FAILED {case['name']}: {step}\n  wanted {wanted}\n  got    {seen}")
    print("\n".join(f"{count:5} do not apply: {why}" for why, count in apart.most_common()))
    print(f"{passed} passed, {failed} failed, {apart.total()} not applicable")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

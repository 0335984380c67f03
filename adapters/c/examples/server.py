"""A server on standard input and output, through ctypes: server.py LIBRARY [--limit NAME=NUMBER…] [newline|content-length|concatenated]

It serves subtract, sum, get_data, echo, update, notify_hello and notify_sum, as the cases of the protocol want.
"""
import json
import os
import select
import sys
import time
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, string_at

LIBRARY = CDLL(sys.argv[1])
NEVER = 2**64 - 1
FRAMINGS = {"newline": 0, "content-length": 1, "concatenated": 2}
NOT_OPEN, NOTHING, REQUEST = 8, 0, 1


class Text(Structure):
    _fields_ = [("bytes", c_void_p), ("len", c_size_t)]

    def read(self):
        return string_at(self.bytes, self.len) if self.bytes else None


class Event(Structure):
    _fields_ = [("kind", c_uint32), ("owed", c_uint32), ("request", c_uint64), ("call", c_uint64), ("tag", c_uint64),
                ("code", c_int64), ("batch_index", c_int64), ("method", Text), ("value", Text), ("id", Text), ("text", Text)]


class State(Structure):
    _fields_ = [("is_closed", c_uint32), ("wants_input", c_uint32), ("calls_open", c_size_t), ("requests_open", c_size_t)]


def declare(name, *arguments):
    function = getattr(LIBRARY, f"antiphon_{name}")
    function.argtypes, function.restype = arguments, c_int32

    def call(*given):
        code = function(*given)
        if code not in (0, NOT_OPEN):
            raise ValueError(f"{name}: {LIBRARY.antiphon_code_text(code).decode()}")
    return call


LIBRARY.antiphon_code_text.restype = c_char_p
config_new = declare("config_new", c_char_p, POINTER(c_void_p))
config_set = declare("config_set", c_void_p, c_char_p, c_uint64)
config_free = declare("config_free", c_void_p)
new = declare("new", c_void_p, POINTER(c_void_p))
free = declare("free", c_void_p)
state_of = declare("state_of", c_void_p, POINTER(State))
give_input = declare("input", c_void_p, c_char_p, c_size_t, POINTER(c_size_t))
input_end = declare("input_end", c_void_p)
set_time = declare("time", c_void_p, c_uint64)
timeout = declare("timeout", c_void_p, POINTER(c_uint64))
next_event = declare("next_event", c_void_p, POINTER(Event))
respond = declare("respond", c_void_p, c_uint64, c_char_p, c_size_t)
respond_error = declare("respond_error", c_void_p, c_uint64, c_int64, c_char_p, c_char_p, c_size_t)
output = declare("output", c_void_p, POINTER(c_void_p), POINTER(c_size_t))
output_sent = declare("output_sent", c_void_p, c_size_t)


def result_of(method, params):
    """The result as JSON; None if there is no such method."""
    if method == b"echo":
        return params or b"null"
    values = json.loads(params or b"[]")
    if method == b"subtract":
        one, other = values if isinstance(values, list) else (values["minuend"], values["subtrahend"])
        return b"%d" % (one - other)
    known = {b"get_data": b'["hello",5]', b"update": b"null", b"notify_hello": b"null", b"notify_sum": b"null"}
    return b"%d" % sum(values) if method == b"sum" else known.get(method)


def serve(conn, event):
    result = result_of(event.method.read(), event.value.read())
    try:
        if result is not None:
            return respond(conn, event.request, result, len(result))
        respond_error(conn, event.request, -32601, None, None, 0)
    except ValueError as error:
        respond_error(conn, event.request, -32603, str(error).encode(), None, 0)


def main(words):
    config, conn, event, state = c_void_p(), c_void_p(), Event(), State()
    taken, size, due, waiting = c_size_t(), c_size_t(), c_uint64(), c_void_p()
    config_new(b"strict", byref(config))
    for word in words:
        name, _, value = word.partition("=")
        if word in FRAMINGS:
            config_set(config, b"framing", FRAMINGS[word])
        elif value:
            config_set(config, name.encode(), int(value))
    new(config, byref(conn))
    config_free(config)
    given, is_open = b"", True
    while True:
        set_time(conn, time.monotonic_ns())
        give_input(conn, given, len(given), byref(taken))
        given = given[taken.value:]
        while next_event(conn, byref(event)) or event.kind != NOTHING:
            if event.kind == REQUEST:
                serve(conn, event)
        state_of(conn, byref(state))
        if state.is_closed:
            return free(conn)
        output(conn, byref(waiting), byref(size))
        if size.value:
            output_sent(conn, os.write(1, string_at(waiting, size.value)))
        timeout(conn, byref(due))
        seconds = None if due.value == NEVER else max(due.value - time.monotonic_ns(), 0) / 1e9
        read = [0] if is_open and state.wants_input and not given else []
        if select.select(read, [], [], 0 if given or size.value else seconds)[0]:
            given = os.read(0, 65536)
            is_open = bool(given) or input_end(conn)


main(sys.argv[2:])

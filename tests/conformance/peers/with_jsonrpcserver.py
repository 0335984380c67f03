"""The server that README.md describes, by jsonrpcserver (PyPI): one message a line on standard input and output."""
import logging
import sys

from jsonrpcserver import InvalidParams, Success, dispatch, method

logging.disable()


@method
def subtract(minuend, subtrahend):
    return Success(minuend - subtrahend)


@method(name="sum")
def total(*numbers):
    try:
        return Success(sum(numbers))
    except TypeError:
        return InvalidParams()


@method
def get_data():
    return Success(["hello", 5])


@method
def echo(*args, **kwargs):
    return Success(kwargs or list(args))


def nothing(*args, **kwargs):
    return Success(None)


for name in ("update", "notify_hello", "notify_sum"):
    method(nothing, name=name)

for line in sys.stdin.buffer:
    # The library takes text, so bytes that are not UTF-8 are replaced.
    if line.strip() and (answer := dispatch(line.decode("utf-8", "replace"))):
        print(answer, flush=True)

"""jsonrpcserver behind lines on stdio, for `antiphon-peer client stdio:ndjson:…`."""

import logging
import sys

from jsonrpcserver import Error, Result, Success, dispatch, method

logging.disable()


@method
def add(a, b) -> Result:
    return Success(a + b)


@method
def fail() -> Result:
    return Error(7, "failed", {"x": 1})


for line in sys.stdin:
    if (answer := dispatch(line)):
        print(answer, flush=True)

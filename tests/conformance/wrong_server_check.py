#!/usr/bin/env python3
"""Shows that play.py fails a wrong server in the right cases, and in no other.

For each fault of wrong_server.py a rule says, from the cases alone, which cases it must spoil: it looks at what is
sent and what is wanted, never at what the server said. The cases that fail have to be exactly those. Without a fault
none may fail.
"""
import argparse
import pathlib
import sys

import play
import wrong_server

SERVER = pathlib.Path(__file__).with_name("wrong_server.py")
# So many cases are played without a fault, at least. The number may only grow.
PLAYED_MIN = 282


def items(messages):
    """Replies one by one, those of batches too."""
    for message in messages:
        yield from message if isinstance(message, list) else [message]


def lines(steps):
    """What is sent, line by line, without blank lines and without the blanks around a line."""
    sent = b"".join(data or b"" for data, _ in steps)
    return [line.strip() for line in sent.split(b"\n") if line.strip()]


def events(case, kind):
    return [event for step in case["steps"] for event in step.get("events", []) if event["kind"] == kind]


def spoils(fault, case, steps):
    """Whether the fault has to make the case fail."""
    replies = [reply for _, replies in steps for reply in replies]
    codes = [one["error"]["code"] for one in items(replies) if "error" in one]
    if fault == "ids-as-floats":
        texts = [one["id"] for one in items(replies) if isinstance(one.get("id"), play.Number) and is_answer(one)]
        return any(repr(float(text)) != text for text in texts)
    if fault == "null-id-left-out":
        return any(isinstance(one, dict) and one["id"] is None for one in replies)
    if fault == "answers-notifications":
        names = [event["method"] for event in events(case, "notification")]
        return bool(names)
    if fault == "one-error-for-a-batch":
        return any(isinstance(one, list) and any(is_invalid(item) for item in one) for one in replies)
    if fault == "empty-array-for-an-empty-batch":
        return any(line.replace(b" ", b"") == b"[]" for line in lines(steps))
    if fault == "takes-nan":
        return "-32700" in codes and any(b"NaN" in line or b"Infinity" in line for line in lines(steps))
    if fault == "null-error-beside-a-result":
        return any("result" in one and is_answer(one) for one in items(replies))
    if fault == "ends-at-bad-json":
        return "-32700" in codes
    return any(event["reason"] == "RepeatedMember" for event in events(case, "malformed"))


def is_answer(one):
    """Whether the reply comes from a method, so that a fault changes its id or form. Errors of the protocol and the answer
    to a cancel, which has the id "c" in the cases, do not."""
    return one.get("error", {}).get("code") not in ("-32600", "-32700", "-32001") and one.get("id") != "c"


def is_invalid(one):
    return one.get("error", {}).get("code") == "-32600"


def main():
    wrong = 0
    for fault in [None, *wrong_server.FAULTS]:
        command = f"{sys.executable} -S -E {SERVER} {fault or ''}"
        options = argparse.Namespace(command=command, preset="strict", framing="newline", name=[], only="", wait=30)
        played, _ = play.play_all(options)
        failed = {case["name"] for case, _, _, _, passed in played if not passed}
        due = {case["name"] for case, _, steps, _, _ in played if fault and spoils(fault, case, steps)}
        is_right = failed == due and bool(due) == bool(fault) and len(played) >= PLAYED_MIN
        wrong += not is_right
        print(f"{'ok' if is_right else 'FAILED'} {fault or 'no fault'}: {len(failed)} of {len(played)} cases fail")
        for name in sorted(failed - due):
            print(f"  fails, and should not: {name}")
        for name in sorted(due - failed):
            print(f"  should fail, and does not: {name}")
    count = len(wrong_server.FAULTS) + 1
    print(f"{count - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

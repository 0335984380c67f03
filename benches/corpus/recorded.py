#!/usr/bin/env python3
"""Makes recorded.jsonl, item 15 of the corpus, of conversations that tests/interop has recorded.

    ANTIPHON_RECORD=FOLDER tests/interop/run.py language_servers      and other cases over pipes
    benches/corpus/recorded.py FOLDER

Of each direction of each conversation in turn one message is taken, as it stood, at most 16, so that none outweighs the
others, and at most 500 messages and 300 000 bytes in all: single messages of version 2.0 of at most 16 KiB, none twice. What
names this machine is replaced by other words of the same kind, and the ids of answers are numbered, so that each can be the
answer to an open call; nothing else is changed.
"""

import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MAX_BYTES = 300_000
MAX_EACH, MAX_ALL = 16, 500
MAX_MESSAGE_BYTES = 16 << 10
ANSWER_ID = re.compile(r'"id"\s*:\s*(?:\d+|"(?:[^"\\]|\\.)*")')


def messages(data):
    """The messages of a stream, whose framing is told by the first bytes of each."""
    while data:
        if data[:15].lower() == b"content-length:" or data[:13].lower() == b"content-type:":
            head, _, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"content-length:\s*(\d+)", head, re.I)
            if not length:
                return
            body, data = rest[:int(length[1])], rest[int(length[1]):]
        else:
            body, _, data = data.partition(b"\n")
        if body.strip():
            yield body.strip()


def scrubbed(text):
    home = str(pathlib.Path.home())
    for path, instead in ((str(ROOT), "/home/ada/antiphon"), (home, "/home/ada")):
        text = text.replace(path, instead)
    # Folders made for one case, and where things are installed.
    text = re.sub(r"/(?:tmp|var/tmp)/[^/\"\\ ]+", "/home/ada/project", text)
    text = re.sub(r'"processId"\s*:\s*\d+', '"processId":4711', text)
    return text


def usable(body):
    """The message as text, and whether it is an answer; none if it is not to be in the corpus."""
    try:
        text = scrubbed(body.decode())
        message = json.loads(text)
    except ValueError:
        return None
    is_fit = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and len(text) <= MAX_MESSAGE_BYTES
    if not is_fit or not {"method", "result", "error"} & set(message):
        return None
    # An answer in which several places look like its id cannot be renumbered.
    is_answer = "method" not in message
    if is_answer and (message.get("id") is None or len(ANSWER_ID.findall(text)) != 1):
        return None
    return text, is_answer


def main(words):
    if len(words) != 1 or not pathlib.Path(words[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    streams = []
    for path in sorted(pathlib.Path(words[0]).iterdir(), key=lambda path: (int(path.stem), path.suffix)):
        found = [each for each in map(usable, messages(path.read_bytes())) if each]
        if found:
            streams.append(iter(found[:MAX_EACH]))
    taken, seen, size, answers = [], set(), 0, 0
    while streams:
        for stream in list(streams):
            each = next(stream, None)
            if each is None:
                streams.remove(stream)
                continue
            text, is_answer = each
            if text in seen or len(taken) == MAX_ALL or size + len(text.encode()) > MAX_BYTES:
                continue
            seen.add(text)
            if is_answer:
                answers += 1
                text = ANSWER_ID.sub(f'"id":{answers}', text)
            size += len(text.encode())
            taken.append(text)
    for word in (str(ROOT), os.uname().nodename, str(pathlib.Path.home())):
        if len(word) > 3 and any(word in text for text in taken):
            print(f"{word} is still in it", file=sys.stderr)
            return 1
    (HERE / "recorded.jsonl").write_text("\n".join(taken) + "\n", encoding="utf-8")
    print(f"{len(taken)} messages, {answers} of them answers, {size} bytes, {size / len(taken):.0f} each")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

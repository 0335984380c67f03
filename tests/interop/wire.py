"""Processes, sockets and framings for the cases: everything here has a deadline.

A `Wire` sends and receives JSON messages and keeps the text of each, for what must be exact to
the byte. Nothing here knows antiphon; it is written from the specifications alone.
"""

import io
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

# How long any wait may take, in seconds.
PATIENCE = 10.0


class Timeout(AssertionError):
    """The other side said nothing in time."""


class Message:
    """One message: parsed, and as it stood."""

    def __init__(self, text):
        self.text = text
        self.json = json.loads(text)


class Wire:
    """One conversation over a pair of pipes or a socket."""

    def __init__(self, framing, read, write, close_write, close):
        self.framing = framing
        self._read, self._write = read, write
        self._close_write, self._close = close_write, close
        self.inbox = queue.Queue()
        self._reader = None

    # -- out

    def send(self, message):
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        self.send_raw(self.frame(text.encode("utf-8", "surrogatepass")))

    def frame(self, body):
        if self.framing == "lsp":
            return b"Content-Length: %d\r\n\r\n" % len(body) + body
        return body + (b"\n" if self.framing == "ndjson" else b"")

    def send_raw(self, data):
        self._write(data)

    def send_slowly(self, message, step=1):
        data = self.frame(json.dumps(message).encode())
        for start in range(0, len(data), step):
            self.send_raw(data[start:start + step])

    def end(self):
        """Closes our direction only."""
        self._close_write()

    def close(self):
        self._close()

    # -- in

    def receive(self, timeout=PATIENCE):
        """The next message; None at the end of input. Nothing is read before the first call of this."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._pump, daemon=True)
            self._reader.start()
        try:
            item = self.inbox.get(timeout=timeout)
        except queue.Empty:
            raise Timeout(f"nothing came within {timeout} s") from None
        if isinstance(item, Exception):
            raise AssertionError(f"the stream cannot be read: {item}")
        if item is None:
            self.inbox.put(None)
        return item

    def json(self, timeout=PATIENCE):
        message = self.receive(timeout)
        assert message is not None, "the input ended"
        return message.json

    def text(self, timeout=PATIENCE):
        message = self.receive(timeout)
        assert message is not None, "the input ended"
        return message.text

    def nothing(self, seconds=0.15):
        """Fails if a message comes, or the input ends, within so many seconds."""
        try:
            message = self.receive(seconds)
        except Timeout:
            return
        raise AssertionError(f"unexpected: {message and message.text[:300]}")

    def ended(self, timeout=PATIENCE):
        """Waits for the end of input; fails if a message comes before it."""
        message = self.receive(timeout)
        assert message is None, f"unexpected: {message.text[:300]}"

    def ask(self, method, params=..., ident=1, timeout=PATIENCE):
        """Sends a request and gives the next message, which should answer it."""
        request = {"jsonrpc": "2.0", "method": method, "id": ident}
        if params is not ...:
            request["params"] = params
        self.send(request)
        return self.json(timeout)

    def _pump(self):
        try:
            for text in self._texts():
                self.inbox.put(Message(text))
            self.inbox.put(None)
        except Exception as error:  # pylint: disable=broad-except
            self.inbox.put(error)

    def _texts(self):
        return {"lsp": self._lsp, "ndjson": self._lines, "json": self._values}[self.framing]()

    def _chunks(self):
        while True:
            try:
                data = self._read()
            except (OSError, ValueError):
                return
            if not data:
                return
            yield data

    def _lines(self):
        held = bytearray()
        for data in self._chunks():
            held += data
            while (end := held.find(b"\n")) >= 0:
                yield held[:end].decode()
                del held[:end + 1]
        if held.strip():
            raise ValueError(f"a line without its end: {bytes(held[:80])!r}")

    def _lsp(self):
        held = bytearray()
        for data in self._chunks():
            held += data
            while True:
                end = held.find(b"\r\n\r\n")
                if end < 0:
                    break
                head = bytes(held[:end]).decode()
                found = re.search(r"(?i)^content-length: *(\d+)$", head.replace("\r", ""), re.M)
                if not found:
                    raise ValueError(f"a header without a length: {head[:80]!r}")
                stop = end + 4 + int(found.group(1))
                if len(held) < stop:
                    break
                yield held[end + 4:stop].decode()
                del held[:stop]
        if held:
            raise ValueError(f"half a message: {bytes(held[:80])!r}")

    def _values(self):
        decoder, held, tail = json.JSONDecoder(), "", b""
        for data in self._chunks():
            tail += data
            try:
                held, tail = held + tail.decode(), b""
            except UnicodeDecodeError:
                continue
            held = held.lstrip()
            while held:
                try:
                    _, end = decoder.raw_decode(held)
                except ValueError:
                    break
                yield held[:end]
                held = held[end:].lstrip()
        if held.strip():
            raise ValueError(f"half a value: {held[:80]!r}")


class Process:
    """A child process whose stderr is always drained and which never outlives its case."""

    alive = []

    def __init__(self, command, env=None, cwd=None, stdout=subprocess.PIPE):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=stdout,
            stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, cwd=cwd, bufsize=0,
            start_new_session=True,
        )
        Process.alive.append(self)
        self.stderr_lines = []
        self._stderr = queue.Queue()
        self.drained = threading.Thread(target=self._drain, daemon=True)
        self.drained.start()

    def _drain(self):
        for line in io.BufferedReader(self.process.stderr, 1 << 16):
            line = line.decode(errors="replace").rstrip("\n")
            self.stderr_lines.append(line)
            self._stderr.put(line)
        self._stderr.put(None)

    def stderr_line(self, pattern, timeout=PATIENCE):
        """The first line on stderr that fits."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._stderr.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Timeout(f"no {pattern!r} on stderr: {self.stderr_lines}") from None
            assert line is not None, f"ended without {pattern!r} on stderr: {self.stderr_lines}"
            if (found := re.search(pattern, line)):
                return found

    def stdout_line(self, timeout=PATIENCE):
        """The first line on stdout; only for a program that says one line there and no more."""
        held, deadline = b"", time.monotonic() + timeout
        while not held.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Timeout(f"no line on stdout within {timeout} s: {self.stderr_lines[-5:]}")
            data = os.read(self.process.stdout.fileno(), 1)
            assert data, f"ended without a line on stdout: {self.stderr_lines[-5:]}"
            held += data
        return held.decode()

    def wire(self, framing):
        out, into = self.process.stdout, self.process.stdin

        def write(data):
            view = memoryview(data)
            while view:
                view = view[into.write(view):]

        def close():
            into.close()

        return Wire(framing, lambda: os.read(out.fileno(), 1 << 16), write, close, close)

    def wait(self, timeout=PATIENCE):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Timeout(f"still runs after {timeout} s") from None

    def kill(self, sig=signal.SIGKILL):
        try:
            os.killpg(self.process.pid, sig)
        except ProcessLookupError:
            pass

    @classmethod
    def clean_up(cls):
        for process in cls.alive:
            process.kill()
            process.process.wait(5)
            process.process.stdin.close()
        cls.alive.clear()


def socket_wire(framing, address):
    """Connects to `("host", port)` or to the path of a Unix socket."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE)
    sock.connect(address)
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return accepted_wire(framing, sock)


def accepted_wire(framing, sock):
    sock.settimeout(None)

    def end():
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close():
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        sock.close()

    return Wire(framing, lambda: sock.recv(1 << 16), sock.sendall, end, close)


def run_once(command, stdin=b"", env=None, timeout=PATIENCE):
    """Runs a program to its end; gives exit code, stdout and stderr."""
    try:
        done = subprocess.run(
            [str(word) for word in command], input=stdin, capture_output=True, timeout=timeout,
            env={**os.environ, **(env or {})}, check=False,
        )
    except subprocess.TimeoutExpired:
        raise Timeout(f"still runs after {timeout} s") from None
    return done.returncode, done.stdout, done.stderr


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="antiphon-interop-")

"""What measures: each source builds a program, runs it, and gives the figures of every round by name.

A source that cannot run here raises `Missing`, with the reason; one that breaks, or takes longer than it may, `Failed`.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "instructions"))
import run as instructions  # noqa: E402

BUILD_SECONDS = 3600
RUN_SECONDS = 900
EMBEDDED = HERE.parent / "tests" / "embedded"


class Missing(Exception):
    """Something that the source needs is not installed here."""


class Failed(Exception):
    """It ran, and broke."""


def run(command, seconds, folder=None, environment=None):
    """What a program prints. When its time is over, it and all that it started are ended."""
    command = [str(word) for word in command]
    try:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **(environment or {})}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise Missing(f"{command[0]}: {error.strerror}") from error
    try:
        printed, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{pathlib.Path(command[0]).name} took longer than {seconds} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 3:
        raise Missing((printed.strip() or told.strip()).splitlines()[-1].removeprefix("SKIPPED: "))
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)[-80:]} ended with {process.returncode}: {told.strip()[-300:]}")
    return printed


def need(tool):
    if not shutil.which(tool):
        raise Missing(f"there is no {tool}")


def need_target(target):
    root = pathlib.Path(run(["rustc", "--print", "sysroot"], 60).strip())
    if not (root / "lib/rustlib" / target / "lib").is_dir():
        raise Missing(f"there is no Rust for {target} (rustup target add {target})")


def targets(folder, part=""):
    """Where a folder of benches/ is built: each apart, for their flags and features differ."""
    base = os.environ.get("CARGO_TARGET_DIR")
    return (pathlib.Path(base).absolute() / folder if base else HERE / folder / "target") / part


def build(folder, part="", environment=None):
    """Builds a folder of benches/ and gives the folder of its programs."""
    command = ["cargo", "build", "-q", "--release", "--locked", "--target-dir", targets(folder, part)]
    run(command, BUILD_SECONDS, HERE / folder, environment)
    return targets(folder, part) / "release"


def rounds(printed):
    """Lines of a name and figures, with tabs between."""
    lines = (line.split("\t") for line in printed.splitlines() if "\t" in line)
    return {name: [float(figure) for figure in figures] for name, *figures in lines}


class Source:
    """Measures by name; a program is built once."""

    def __init__(self):
        self.built = None

    def measure(self, names):
        """Name to the figures of every round."""
        if self.built is None:
            self.built = self.build()
        return self.take(sorted(names))

    def build(self):
        return ""


class Instructions(Source):
    """benches/instructions, portable or not: its program."""

    def __init__(self, is_portable=False):
        super().__init__()
        self.is_portable = is_portable

    def build(self):
        if not self.is_portable:
            return build("instructions") / "antiphon-instructions"
        flags = {"RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} --cfg=antiphon_portable".strip()}
        return build("instructions", "portable", flags) / "antiphon-instructions"


class Time(Instructions):
    def take(self, names):
        """Three rounds of each of five processes: in one of sixteen, memory lies where an operation is slow."""
        taken = [rounds(run([self.built, "time", *names], RUN_SECONDS)) for _ in range(5)]
        return {name: [figure for process in taken for figure in process[name]] for name in taken[0]}


class Count(Instructions):
    def take(self, names):
        need("valgrind")
        return {name: [figures[0]] for name, figures in count(self.built, *names).items()}


class Allocations(Instructions):
    def take(self, names):
        need("valgrind")
        # Some real peers escape the slash in a method's name, and the event then holds a copy without escapes.
        # Decoding allocates what serde_json needs, and not the core.
        ours = (figures[1] for name, figures in count(self.built).items()
                if instructions.guarded(name) and "15 recorded" not in name and "decode " not in name)
        return {"most": [max(ours)]}


class Held(Instructions):
    def take(self, names):
        return rounds(run([self.built, "memory"], RUN_SECONDS))


def count(binary, *names):
    try:
        return instructions.count(binary, *names, seconds=RUN_SECONDS)
    except (SystemExit, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error


class Peers(Source):
    """benches/peers: reading, other software and ours by turns."""

    def build(self):
        return build("peers") / "antiphon-bench-peers"

    def take(self, names):
        readers, items = zip(*(name.rsplit(" ", 1) for name in names))
        rows = [word for reader in sorted(set(readers)) for word in ("--rows", reader)]
        return rounds(run([self.built, "--raw", "yes", "--items", ",".join(sorted(set(items))), *rows], RUN_SECONDS))


class Echo(Source):
    """benches/echo: over sockets, other software beside ours."""

    def build(self):
        return build("echo") / "echo"

    def take(self, names):
        rows = [word for row in sorted({name.rsplit(": ", 1)[0] for name in names}) for word in ("--rows", row)]
        return rounds(run([self.built, "--raw", "yes", *rows], RUN_SECONDS))


class Idle(Source):
    def build(self):
        return build("echo") / "idle"

    def take(self, names):
        rows = re.findall(r"^\| (.*?) \| (\d+) \|$", run([self.built], RUN_SECONDS), re.M)
        return {name: [int(size)] for name, size in rows}


class Counts(Source):
    """benches/echo: what a call takes besides time."""

    def build(self):
        return build("echo") / "counts"

    def take(self, names):
        rows = re.findall(r"^\| (.*?) \| ([\d.]+) \|$", run([self.built], RUN_SECONDS), re.M)
        return {name: [float(count)] for name, count in rows}


class Threads(Source):
    """benches/echo: a call on threads beside lsp-server's channels and threads, by the clock."""

    def build(self):
        return build("echo") / "threads"

    def take(self, names):
        return rounds(run([self.built, "--raw", "yes"], RUN_SECONDS))


class Wasm(Source):
    """benches/wasm: time under Node, or fuel of an interpreter."""

    def __init__(self, option):
        super().__init__()
        self.option = option

    def take(self, names):
        need("node")
        need_target("wasm32-unknown-unknown")
        place = {"CARGO_TARGET_DIR": str(targets("wasm"))}
        printed = run(["node", HERE / "wasm/run.mjs", self.option], BUILD_SECONDS, environment=place)
        if self.option == "--raw":
            return rounds(printed)
        lines = re.findall(r"^ *(\d+) +\d+ +(\d+) .* (\d\d \w+)$", printed, re.M)
        return {f"{kind} {name}": [int(fuel)] for *both, name in lines for kind, fuel in zip(("read", "serde"), both)}


class Embedded(Source):
    """tests/embedded: how small a peer is."""

    def __init__(self, script, line):
        super().__init__()
        self.script, self.line = script, line

    def take(self, names):
        need_target("thumbv7em-none-eabihf")
        place = {"CARGO_TARGET_DIR": str(targets("embedded"))} if os.environ.get("CARGO_TARGET_DIR") else {}
        printed = run([sys.executable, EMBEDDED / self.script], BUILD_SECONDS, environment=place)
        return {name: [int(size)] for name, size in re.findall(self.line, printed, re.M)}


TIME, COUNT, ALLOCATIONS, HELD = Time(), Count(), Allocations(), Held()
PORTABLE_TIME, PORTABLE_COUNT = Time(is_portable=True), Count(is_portable=True)
WASM_TIME, WASM_COUNT = Wasm("--raw"), Wasm("--count")
PEERS, ECHO, IDLE, COUNTS, THREADS = Peers(), Echo(), Idle(), Counts(), Threads()
FLASH = Embedded("flash.py", r"^(\w+): text .* = (\d+) bytes of flash")
MEMORY = Embedded("memory.py", r"^([\w-]+): .* = (\d+) bytes of RAM")

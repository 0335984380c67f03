"""What the scripts here share: the targets, the engine, and one run of it."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
# The longest case of each target that is worth its time, in bytes (others: 768), and its dictionary (others: none).
LONGEST = {"json": 1024, "frames": 512, "client": 1024, "server": 1024, "encode": 400, "sse_reader": 400}
WORDS = {"json": "json", "frames": "messages", "client": "messages", "server": "messages", "encode": "messages", "sse_reader": "events"}
# What a script exits with when a tool is missing and nothing was checked.
SKIPPED = 3


def targets():
    """The names in the table of targets, in its order."""
    text = (HERE / "src/lib.rs").read_text()
    return re.findall(r'\btarget\("(\w+)"', text)


def chosen(names):
    """The targets that are named, or all."""
    unknown = set(names) - set(targets())
    if unknown:
        sys.exit(f"there is no target {', '.join(sorted(unknown))}; there are: {', '.join(targets())}")
    return names or targets()


def missing():
    """Why the engine cannot run here; none if it can."""
    nightly = {**os.environ, "RUSTUP_TOOLCHAIN": "nightly"}
    for command in (["rustc", "-vV"], ["cargo", "fuzz", "--version"]):
        try:
            ran = subprocess.run(command, env=nightly, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{' '.join(command)}: {error}"
        if ran.returncode != 0:
            return f"{' '.join(command)}: {(ran.stderr.strip().splitlines() or ['failed'])[0]}"
    return None


def build(features=(), names=()):
    """Builds every target, or the only one that is named, with overflow checks and assertions; the folder of the programs."""
    nightly = {**os.environ, "RUSTUP_TOOLCHAIN": "nightly"}
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "-".join(["fuzz", *features])
    # But for the C interface nothing here is unsafe, so the memory sanitizers would only cost time.
    command = ["cargo", "fuzz", "build", "--sanitizer", "none", "--release", "--debug-assertions"]
    command += ["--target-dir", str(folder)] + [f"--features={feature}" for feature in features]
    command += names if len(names) == 1 else []
    subprocess.run(command, env=nightly, cwd=HERE.parent, check=True)
    shown = subprocess.run(["rustc", "-vV"], env=nightly, capture_output=True, text=True, check=True)
    host = re.search(r"^host: (.*)$", shown.stdout, re.M).group(1)
    return folder / host / "release"


@dataclass
class Run:
    """What one run of the engine did."""

    found: bytes | None
    executions: int
    cpu_seconds: float
    covered: int
    said: str

    @property
    def rate(self):
        return self.executions / max(self.cpu_seconds, 0.01)


def fuzz(program, corpus, cpu_seconds, seed=0):
    """Runs one target until it finds something or has used so much of the processor."""
    name = program.name
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), str(corpus), f"-artifact_prefix={folder}/", f"-seed={seed}"]
        command += [f"-max_len={LONGEST.get(name, 768)}", "-len_control=20", "-timeout=20", "-print_final_stats=1"]
        if name in WORDS:
            command.append(f"-dict={HERE}/dict/{WORDS[name]}.dict")
        # The engine counts on the wall; the processor may be shared, so it is stopped from here.
        command.append(f"-max_total_time={cpu_seconds * 20}")
        with open(f"{folder}/said", "w+", errors="replace") as said:
            child = subprocess.Popen(command, stdout=said, stderr=said)
            used, is_killed = 0.0, False
            while child.poll() is None:
                time.sleep(0.2)
                used = cpu_of(child.pid) or used
                if used >= cpu_seconds:
                    is_killed = stop(child)
            said.seek(0)
            text = said.read()
        # A process that was stopped for a while leaves a `slow-unit-` behind, which is no find; a case that hangs is a `timeout-`.
        kinds = ("crash-*", "timeout-*", "oom-*", "leak-*")
        found = next((path for kind in kinds for path in pathlib.Path(folder).glob(kind)), None)
        found = found and found.read_bytes()
    if found is None and not is_killed and child.returncode not in (0, -15, 72):
        raise RuntimeError(f"{name} ended with {child.returncode}:\n{text[-2000:]}")
    executions = [int(n) for n in re.findall(r"^#(\d+)\s", text, re.M)]
    executions += [int(n) for n in re.findall(r"number_of_executed_units: (\d+)", text)]
    covered = [int(n) for n in re.findall(r"\bcov: (\d+)", text)]
    return Run(found, max(executions, default=0), used, max(covered, default=0), text)


def passes(program, case):
    """Whether a target plays one case without a fault."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(case)
        file.flush()
        return subprocess.run([str(program), file.name], capture_output=True, timeout=60).returncode == 0


def stop(child):
    """Ends a process of the engine. Says whether it had to be killed: its handler of the signal allocates, and waits for
    ever if the allocator was at work."""
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return True
    return False


def cpu_of(pid):
    """How many seconds of the processor a child has used so far; none once it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cases(name):
    """The committed cases of a target."""
    return [bytes.fromhex(line) for line in (HERE / f"corpus/{name}.hex").read_text().split()]


def unpack(name, folder):
    """Puts the committed cases of a target into a folder, one file each."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for at, case in enumerate(cases(name)):
        (folder / f"committed-{at:04}").write_bytes(case)


def pack(name, folder):
    """Makes the files of a folder the committed cases of a target; how many there are."""
    found = {path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    found = sorted(found, key=lambda case: (len(case), case))
    # An empty case would be an empty line, and says nothing.
    lines = [case.hex() + "\n" for case in found if case]
    (HERE / f"corpus/{name}.hex").write_text("".join(lines))
    return len(lines)


def minimise(program, folders, into):
    """Adds to the folder `into` those cases of `folders` that reach what its own do not."""
    command = [str(program), "-merge=1", "-use_counters=0", str(into), *map(str, folders)]
    subprocess.run(command, check=True, capture_output=True)

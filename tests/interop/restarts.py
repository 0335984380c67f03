"""A client of ours that follows nodes of other authors, each of which is killed ten times and started again."""

import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from suite import MODULES, PROFILE, TARGET, Skip, case, rust
from wire import PATIENCE, Process, Timeout, temporary_folder

KILLS = 10
FOLLOWER = TARGET / PROFILE / "examples" / "block_follower"
ANVIL = MODULES / "@foundry-rs" / "anvil-linux-amd64" / "bin" / "anvil"
GAP = "block_follower: the connection was lost, and events until it was replaced are missing"
REPLACED = re.compile(r"block_follower: block (0x[0-9a-f]+) was replaced$")


class Follower:
    """The example. What it prints and what it tells are one stream, so that their order is seen."""

    def __init__(self, url):
        if not FOLLOWER.exists():
            raise Skip("not built: cargo build -p antiphon-tokio --features websocket --example block_follower")
        self.process = Process(["sh", "-c", 'exec "$0" "$1" >&2', FOLLOWER, url])

    def blocks(self, count):
        """Waits for so many blocks more; gives the number of the last."""
        for _ in range(count):
            last = self.process.stderr_line("^(0x[0-9a-f]+)$")[1]
        return int(last, 16)

    def check(self):
        """Every number is one above the last, or it was told just before that the last was replaced. Gives the
        blocks before each loss of the connection, and those that were replaced after it."""
        last, told, losses = None, None, []
        for line in list(self.process.stderr_lines):
            if (replaced := REPLACED.match(line)):
                told = int(replaced[1], 16)
                assert told == last and losses, f"{line}, after {last}"
                losses[-1][1].append(told)
            elif line == GAP:
                losses.append((last, []))
            else:
                number = int(line, 16)
                assert last in (None, number - 1) or told == last, f"{number} after {last}, and nothing was told"
                last, told = number, None
        return losses


def until(what, seconds=PATIENCE):
    """Asks again until there is an answer that counts."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (answer := what()):
            return answer
        time.sleep(0.02)
    raise Timeout(f"not within {seconds} s")


def killed(process):
    process.kill(signal.SIGKILL)
    process.wait()


# USE-15 TST-15
@case("block_follower follows jsonrpsee's server through ten kill -9", ("rust:jsonrpsee_streams",))
def jsonrpsee_restarts():
    with temporary_folder() as folder:
        height = pathlib.Path(folder) / "height"

        def start(port):
            process = Process([rust("jsonrpsee_streams"), "server", port, height])
            return process, int(process.stdout_line())
        server, port = start(0)
        follower = Follower(f"ws://127.0.0.1:{port}/")
        for _ in range(KILLS):
            follower.blocks(20)
            killed(server)
            server, _ = start(port)
        # The height goes on, so nothing was replaced, and all numbers are there.
        follower.blocks(20)
        losses = follower.check()
        assert len(losses) == KILLS and not any(replaced for _, replaced in losses), losses
        made = int(height.read_text())
        return f"{made} blocks made, {len(losses)} gaps told"


class Anvil:
    """A node that writes its chain to a file once a second, and loses what it has made since if it is killed."""

    def __init__(self, folder):
        self.folder, self.state = folder, folder / "state.json"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        self.process = Process(
            [ANVIL, "--port", self.port, "--state", self.state, "--state-interval", 1, "--block-time", 0.2],
            env={"HOME": str(self.folder)}, cwd=self.folder, stdout=subprocess.DEVNULL)
        until(lambda: self.block("latest"))

    def block(self, number):
        """What the node says of a block; None if there is none, or no node."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": [number, False]}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}", json.dumps(asked).encode(),
                                         {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["result"]
        except OSError:
            return None

    def restart(self):
        """Kills it. A state that was half-written is replaced by the one before, or else it would not start."""
        killed(self.process)
        kept = self.folder / "kept.json"
        try:
            json.loads(self.state.read_text())
            shutil.copy(self.state, kept)
        except (FileNotFoundError, ValueError):
            assert kept.exists(), "anvil has written no state"
            shutil.copy(kept, self.state)
        self.start()


# USE-15 TST-15
@case("block_follower follows anvil through ten kill -9", ("npm:@foundry-rs/anvil-linux-amd64",))
def anvil_restarts():
    with temporary_folder() as folder:
        anvil = Anvil(pathlib.Path(folder))
        until(anvil.state.exists)
        follower = Follower(f"ws://127.0.0.1:{anvil.port}/")
        gone = []
        for kill in range(KILLS):
            # It writes its state once a second, so the kills are not to be a second apart.
            last = follower.blocks(3 + kill % 4)
            before = anvil.block(hex(last))
            anvil.restart()
            after = until(lambda: anvil.block(hex(last)))
            gone.append(after["hash"] != before["hash"])
        follower.blocks(5)
        # It writes into the folder.
        killed(anvil.process)
        losses = follower.check()
        assert len(losses) == KILLS, losses
        for place, (is_gone, (_, replaced)) in enumerate(zip(gone, losses), 1):
            assert replaced or not is_gone, f"the chain went back after kill {place}, and that was not told"
        assert any(gone), "the node has lost nothing"
        return f"{len(losses)} gaps told, {sum(bool(replaced) for _, replaced in losses)} of them with lost blocks"

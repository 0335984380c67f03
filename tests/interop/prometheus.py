"""What a server measures of its calls, read by Prometheus's own parser."""

import re
import subprocess

from libraries import PEERS_HERE
from mcp_peers import checks
from suite import PROFILE, PYTHON, TARGET, Skip, case

EXAMPLE = TARGET / PROFILE / "examples" / "metrics"


# OBS-02 OBS-03 OBS-08 INT-10
@case("Prometheus's parser reads of the example metrics what was called, and one series of unknown methods",
      ("pypi:prometheus_client",))
def prometheus_reads():
    if not EXAMPLE.exists():
        raise Skip("not built: cargo build -p antiphon-tokio --features http --example metrics")
    process = subprocess.Popen([EXAMPLE], stderr=subprocess.PIPE, text=True)
    try:
        rpc, metrics = re.findall(r"http://\S+", process.stderr.readline())
        return checks([PYTHON, PEERS_HERE / "prometheus_reader.py", rpc, metrics])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

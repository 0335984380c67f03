"""antiphon's own client, which calls on and on and passes on what a call has brought: antiphon_loop.py PEER URL"""

import subprocess
import sys

peer, url = sys.argv[1:]
process = subprocess.Popen([peer, "--preset", "strict", "client", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
brought = b"null"
while True:
    # As text, so that it stays as it is.
    process.stdin.write(b'{"op":"call","method":"next","params":[%s],"timeout_ms":2000}\n' % brought)
    process.stdin.flush()
    if not (line := process.stdout.readline().strip()):
        break
    brought = line[len(b'{"result":'):-1] if line.startswith(b'{"result":') else b"null"

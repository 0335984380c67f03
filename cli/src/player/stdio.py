client = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
atexit.register(client.kill)
source, sink = client.stdout.fileno(), client.stdin.fileno()

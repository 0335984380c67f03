family = socket.AF_INET6 if ":" in HOST else socket.AF_INET
listener = socket.create_server((HOST, PORT), family=family)
url = URL.replace("{port}", str(listener.getsockname()[1]))
client = subprocess.Popen([word.replace("{}", url) for word in sys.argv[2:]], stdout=sys.stderr)
atexit.register(client.kill)
listener.settimeout(10)

def get(seconds):
    listener.settimeout(seconds)
    try:
        wire = listener.accept()[0]
    except TimeoutError:
        return None
    wire.settimeout(10)
    data = b""
    while b"\r\n\r\n" not in data:
        data += wire.recv(65536)
    head, _, data = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split()[0])
    while len(data) < size:
        data += wire.recv(65536)
    return data, wire
def split(text):
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:1], text[1:9], text[9:])] + [b"0\r\n\r\n"]
def put(wire, text, parts):
    length = b"Transfer-Encoding: chunked" if parts else b"Content-Length: %d" % len(text)
    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n%s\r\n\r\n" % length)
    for piece in parts(text) if parts else [text]:
        wire.sendall(piece)
        time.sleep(0.05)
    wire.close()

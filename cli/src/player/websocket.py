def frame(first, text):
    size = len(text)
    return bytes([first]) + (bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")) + text
def framed(text):
    return frame(0x81, text)
def split(text):
    half = len(text) // 2
    return [frame(1, text[:1]), frame(0, text[1:half]), frame(0x80, text[half:])]
def cut(data):
    if len(data) < 2:
        return None
    size, at = data[1] & 127, 2
    if size > 125:
        at = 4 if size == 126 else 10
        size = int.from_bytes(data[2:at], "big")
    if len(data) < at + 4 + size:
        return None
    mask, text = data[at:at + 4], data[at + 4:at + 4 + size]
    text = bytes(byte ^ mask[place % 4] for place, byte in enumerate(text))
    if data[0] & 15 == 8:
        print("-- the client has closed the WebSocket: %r\n-- no further call" % text[2:])
        sys.exit()
    return text, data[at + 4 + size:]
while b"\r\n\r\n" not in data and read():
    pass
head, _, data = data.partition(b"\r\n\r\n")
lines = [line.partition(b":") for line in head.split(b"\r\n")]
fields = {name.lower(): value.strip() for name, _, value in lines}
key = fields[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
reply = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
reply += base64.b64encode(hashlib.sha1(key).digest()) + b"\r\n"
if b"sec-websocket-protocol" in fields:
    reply += b"Sec-WebSocket-Protocol: " + fields[b"sec-websocket-protocol"].split(b",")[0] + b"\r\n"
os.write(sink, reply + b"\r\n")

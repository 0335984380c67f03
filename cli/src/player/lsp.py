def framed(text):
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
def cut(data):
    head, end, rest = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split()[0]) if end else 0
    return (rest[:size], rest[size:]) if end and len(rest) >= size else None

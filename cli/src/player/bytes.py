data = b""
def read():
    global data
    piece = os.read(source, 65536)
    data += piece
    return piece
def get(seconds):
    global data
    end = time.time() + seconds
    while (found := cut(data)) is None:
        if not select.select([source], [], [], max(0, end - time.time()))[0]:
            return None
        if not read():
            print("-- the client has ended the connection")
            return None
    text, data = found
    return text, None
def put(where, text, parts):
    for piece in parts(text) if parts else [framed(text)]:
        os.write(sink, piece)
        time.sleep(0.05)
def split(text):
    whole = framed(text)
    return [whole[:1], whole[1:len(whole) // 2], whole[len(whole) // 2:-1], whole[-1:]]

def call(seconds):
    while got := get(seconds):
        text, where = got
        print("<-", text.decode(errors="replace"), flush=True)
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, dict) and "method" in message and "id" in message:
            return json.dumps(message["id"]), where
def say(text, to, number, parts=None):
    global replied
    ident, where = to
    text = text.replace("#N", str(number)).replace("#ID", ident)
    if not (where and replied == where):
        print("->", text, flush=True)
        try:
            put(where, text.encode(), parts)
        except OSError as error:
            print("-- the client has ended the connection:", error)
    replied = where
n, later, held, replied = 0, 0, [], None
while later < 3:
    to = held.pop(0) if held else call(3)
    if to is None:
        print("-- no further call")
        break
    n += 1
    later += n > 3
    if n != 3:
        say(RIGHT, to, n)
        continue
    for act, value in json.loads(sys.argv[1]):
        if act == "send":
            say(value, to, 3)
        elif act == "pieces":
            say(value, to, 3, split)
        elif act == "wait":
            more = call(value / 1000)
            held += [more] if more else []
        elif act == "held":
            while held:
                n += 1
                say(RIGHT, held.pop(), n)
        elif held:
            break

def framed(text):
    return text + b"\n"
def cut(data):
    line, end, rest = data.partition(b"\n")
    return (line, rest) if end else None

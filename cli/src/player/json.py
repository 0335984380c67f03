def framed(text):
    return text
def cut(data):
    text = data.decode(errors="ignore").lstrip()
    try:
        size = json.JSONDecoder().raw_decode(text)[1]
    except ValueError:
        return None
    return text[:size].encode(), text[size:].encode()

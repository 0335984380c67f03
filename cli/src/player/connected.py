wire = listener.accept()[0]
source = sink = wire.fileno()

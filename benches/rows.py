"""The rows of the table: what must be, what is wanted, and which figures say so.

The only place where these limits stand. A row consists of parts, of which the worst decides; what stands beside a part is
shown in brackets and decides nothing.
"""

from dataclasses import dataclass, field

import sources

MIX, RECORDED = "14 mix_4000", "15 recorded"
TASKS, THREADS = ("tokio", "smol"), ("blocking",)
RUNTIMES = TASKS + THREADS
FRAMINGS = ("Newline", "ContentLength", "Concatenated", "Messages")
SMALL = {"01": "01 req_small", "04": "04 resp_small", "05": "05 resp_error", "08": "08 batch_100", "11": "11 id_uuid"}


ITEMS = ("01 req_small", "02 lsp_completion", "03 lsp_didchange_5k", "04 resp_small", "05 resp_error", "06 eth_block_30k", "07 params_1m",
         "08 batch_100", "09 mcp_tools_call", "10 escapes_2k", "11 id_uuid", "12 max_id_u64", "13 pretty_mcp", MIX, RECORDED)


@dataclass
class Part:
    """One figure: its label, the source and the names that are measured for it, and how it is computed of them, round by round."""
    label: str
    source: object
    names: list
    of: object = lambda value: value
    form: str = "{:.2f}"
    beside: list = field(default_factory=list)
    anchor: float | None = None  # the figure on the machine of the limits


@dataclass
class Row:
    number: int | str
    what: str
    must: float | None
    target: float | None
    parts: list
    is_least: bool = False
    is_against_transport: bool = False  # says something only where the set-up is as it was

    @property
    def at(self):
        return int(str(self.number).rstrip("b"))


def ratio(label, source, ours, theirs, beside=(), anchor=None):
    return Part(label, source, [ours, theirs], lambda own, other: own / other, beside=list(beside), anchor=anchor)


def parse(label, item, source=sources.TIME, count=sources.COUNT):
    """Reading an item against serde_json with types written by hand; instructions beside it."""
    names = (f"parse {item}", f"serde {item}")
    return ratio(label, source, *names, beside=[ratio("instructions", count, *names)])


def decode(item):
    """Decoding the params and results of an item against serde_json on the same text; instructions beside it."""
    names = (f"decode {item}", f"decode {item} by serde_json")
    return ratio(item[:2], sources.TIME, *names, beside=[ratio("instructions", sources.COUNT, *names)])


def against(peer, *items):
    """Reading items against other software, in the run of benches/peers."""
    return [ratio(item, sources.PEERS, f"antiphon {item}", f"{peer} {item}") for item in items]


def instructions(item, name):
    return Part(item, sources.COUNT, [f"parse {name}"], form="{:.0f}")


# Times cannot be compared across machines, nor across moments of one whose cores others share. So a time that has a limit
# in nanoseconds is converted to the machine of the limits: multiplied by what serde_json took there for this text, divided
# by what it takes here in the same round. The time as measured here stands beside it.
YARDSTICKS = {"01": ("serde 01 req_small", 153), "03": ("serde 03 lsp_didchange_5k", 2657)}


def there(label, item, names, of=lambda nanos: nanos, say=lambda nanos: nanos, form="{:.0f}"):
    """Nanoseconds on the machine of the limits, by the yardstick of an item; those of this machine beside them."""
    name, nanos = YARDSTICKS[item]
    here = Part("here", sources.TIME, names, lambda *times: say(of(*times)), form=form)
    return Part(label, sources.TIME, [*names, name], lambda *times: say(of(*times[:-1]) * nanos / times[-1]), form=form, beside=[here])


def bookkeeping(label, open):
    """What a call that is made and given up costs more than a notification, without the harness's own list."""
    names = [f"call and give up, {open} open", "notify", f"turns, {open} open"]
    return there(label, "01", names, lambda call, told, turn: call - told - turn, form="{:.1f}")


def apart(label, ours, floor, mode):
    """Processor time against the bare transport, both sides ours. Each side alone, where the other is bare, stands beside it."""
    bare = f"{floor}: {mode}"
    beside = [ratio(side, sources.ECHO, f"{ours}, {side}: {mode}", bare) for side in ("server", "client")]
    return [ratio(label, sources.ECHO, f"{ours}: {mode}", bare, beside)]


def echo(transport, mode, runtimes):
    """antiphon on some runtimes, typed params and results, by the calls that people write."""
    parts = []
    for runtime in runtimes:
        parts += apart(runtime, f"antiphon {runtime} {transport}", f"bare {runtime} {transport}", mode)
    return parts


def crowd(transport, runtimes):
    return [ratio(runtime, sources.ECHO, f"antiphon {runtime} {transport}: crowd", f"bare {runtime} {transport}: crowd")
            for runtime in runtimes]


def typed(label, mode, runtimes):
    """With router and typed client, against a plain service and `call`."""
    return [ratio(f"{runtime} {label}", sources.ECHO, f"antiphon {runtime} TCP, router and stub: {mode}", f"antiphon {runtime} TCP: {mode}")
            for runtime in runtimes]


def picked(peer, transport="TCP"):
    """A call of the crowd against the same with other software, in the same run."""
    return ratio(peer, sources.ECHO, f"antiphon tokio {transport}: crowd", f"{peer}: crowd")


ROUTED = ["add by a router past an interceptor", "add by hand"]


def channels(label, over, ours, beside=()):
    """The time of a call on threads against lsp-server's. Its messages go out in one write in what stands beside it."""
    theirs = f"{over}: lsp-server"
    beside = [ratio("its writes buffered", sources.THREADS, f"{over}: {ours}", f"{theirs}, buffered"), *beside]
    return ratio(label, sources.THREADS, f"{over}: {ours}", theirs, beside)


def added(label, names, beside=()):
    return Part(label, sources.COUNT, names, lambda more, less: more - less, form="{:.0f}", beside=list(beside))


def counted(label, name):
    return Part(label, sources.COUNTS, [name])


def decoded(item):
    """Reading an item and decoding its params or result, against serde_json that decodes as it reads; instructions beside it."""
    names = (f"read and decode {item}", f"read and decode {item} by serde_json")
    return ratio(item[:2], sources.TIME, *names, beside=[ratio("instructions", sources.COUNT, *names)])


def bare(label, mode, anchor):
    """What the bare transport itself costs here, which the ratios of rows 15 to 17 are multiples of."""
    return Part(label, sources.ECHO, [f"bare blocking TCP: {mode}"], anchor=anchor)


def by_hand(label, mode):
    """What one would write over serde_json for this service alone."""
    return apart(f"{label},", "serde_json by hand TCP", "bare blocking TCP", mode)


def http(label, mode):
    """HTTP, for which there is one client and one server."""
    return apart(f"{label},", "antiphon tokio HTTP", "bare hyper HTTP", mode)


def events(label, mode):
    """An event of one reply over HTTP; the client is bare hyper for both."""
    return ratio(label, sources.ECHO, f"antiphon tokio events, server: {mode}", f"bare hyper events: {mode}")


def held(label, name):
    return Part(label, sources.IDLE, [name], form="{:.0f}")


def by_bytes(item, framing):
    name = f"feed {item} {framing}"
    return ratio(f"{item} {framing}", sources.TIME, f"{name} by bytes", f"{name} whole")


def linear(framing):
    """A byte of either frame costs the same; items 01 and 09 have 61 and 386 bytes, and what their framing adds."""
    frames = (83, 409) if framing == "ContentLength" else (62, 387)
    names = [f"feed {item} {framing} by bytes" for item in ("09", "01")]
    return Part(framing, sources.COUNT, names, lambda long, short: (long / frames[1]) / (short / frames[0]))


SERDE = "serde_json typed with raw values"
# How far the ratio of other software may be from what it was; beyond that the bare transport costs something else here.
MAX_APART = 0.30
SETUP = Row(16, "set-up: other software, 64 in flight, against the bare transport", None, None, [
    ratio("jsonrpsee WebSocket", sources.ECHO, "jsonrpsee WebSocket: many", "bare tokio WebSocket: many", anchor=35),
    ratio("async-lsp", sources.ECHO, "async-lsp duplex: many", "bare tokio duplex: many", anchor=24),
    ratio("karyon TCP", sources.ECHO, "karyon_jsonrpc TCP: many", "bare tokio TCP: many", anchor=104)])

ROWS = [
    Row(1, f"reading item 14, 4000 different messages, against {SERDE}", 0.62, 0.45, [parse("14", MIX)]),
    Row(1, "reading item 15, what real peers said, against the same", 0.62, 0.45, [parse("15", RECORDED)]),
    Row(2, "reading items 01, 04, 05, 08, 11 against the same", 0.30, 0.22, [parse(*item) for item in SMALL.items()]),
    Row(3, "reading items 01 to 05 against alloy-json-rpc, which refuses 03", 0.35, 0.25, against("alloy-json-rpc", "01", "02", "04", "05")),
    Row(3, "the same against jsonrpsee-types", 0.22, 0.15, against("jsonrpsee-types", "01", "02", "03", "04", "05")),
    Row(3, "the same against lsp-server", 0.18, 0.12, against("lsp-server", "01", "02", "03", "04", "05")),
    Row(4, "instructions to read item 01", 800, 650, [instructions("01", "01 req_small")]),
    Row(4, "instructions to read item 04", 700, 550, [instructions("04", "04 resp_small")]),
    Row(4, "instructions to read item 05", 850, 700, [instructions("05", "05 resp_error")]),
    Row(5, "reading item 03, escaped text, GB/s on the machine of the limits", 5.5, 8, [
        there("03", "03", ["parse 03 lsp_didchange_5k"], say=lambda nanos: 5101 / nanos, form="{:.2f}")], is_least=True),
    Row(6, f"reading item 06, a block in hex, against {SERDE}", 0.65, 0.50, [parse("06", "06 eth_block_30k")]),
    Row(6, "the same against sonic-rs typed", 0.92, 0.70, against("sonic-rs typed", "06")),
    Row(7, f"reading item 07, 1 MiB of dense JSON, against {SERDE}", 0.80, 0.55, [parse("07", "07 params_1m")]),
    Row(7, "the same against sonic-rs typed", 0.86, 0.60, against("sonic-rs typed", "07")),
    Row(8, f"reading item 14 without vector code, against {SERDE}", 0.75, 0.60, [
        parse("native", MIX, sources.PORTABLE_TIME, sources.PORTABLE_COUNT),
        ratio("WebAssembly", sources.WASM_TIME, f"read {MIX}", f"serde {MIX}",
              beside=[ratio("instructions", sources.WASM_COUNT, f"read {MIX}", f"serde {MIX}")])]),
    Row(9, "writing a small frame with Content-Length, against a struct of serde", 0.40, 0.28, [
        ratio("notification", sources.TIME, "encode small ContentLength", "encode small by serde_json"),
        ratio("request", sources.TIME, "encode request ContentLength", "encode request by serde_json")]),
    Row(10, "writing 24 KB and 1 MiB against copying the frame", 1.15, 1.05, [
        ratio(size, sources.TIME, f"encode {size} ContentLength", f"copy {size}") for size in ("24 KB", "1 MiB")]),
    Row(11, "allocations per message of the core, the worst operation", 0, 0, [Part("", sources.ALLOCATIONS, ["most"], form="{:g}")]),
    Row(11, "allocations of a call over TCP, both sides", 3, 2, [
        counted(f"{runtime} {mode}", f"antiphon {runtime} TCP: {mode}, allocations") for runtime in RUNTIMES for mode in ("one", "crowd")]),
    Row(11, "the same over WebSocket", None, None, [
        counted(f"{runtime} {mode}", f"antiphon {runtime} WebSocket: {mode}, allocations") for runtime in RUNTIMES for mode in ("one", "crowd")]),
    Row(12, "bookkeeping of a call, ns on the machine of the limits", 12, 7, [bookkeeping("1 open", 1), bookkeeping("10 000 open", 10000)]),
    Row(13, "the same with 1 000 000 open, 250 000 calls a second, against hashbrown, foldhash and a lazy heap", 0.6, 0.45, [
        Part("", sources.TIME, [f"{what}, 1000000 open" for what in ("call and give up", "turns", "table of hash and heap")] + ["notify"],
             lambda call, turn, usual, told: (call - told - turn) / (usual - told - turn), beside=[bookkeeping("ns", 1000000).beside[0]])]),
    Row(13, "bytes of an open call besides its tag, 1 000 000 open", 48, 24, [
        Part("", sources.HELD, ["bytes of a call, 1000000 open"], form="{:.0f}",
             beside=[Part("100 000 open", sources.HELD, ["bytes of a call, 100000 open"], form="{:.0f}")])]),
    Row(14, "round trip in memory, 60 bytes, ns, the same", 200, 140, [
        there(framing, "01", [f"round trip {framing}"]) for framing in FRAMINGS]),
    Row(15, "TCP echo, 1 in flight, both sides, processor time against a bare echo, on tasks", 1.40, 1.20,
        echo("TCP", "one", TASKS), is_against_transport=True),
    Row(15, "the same on threads", 1.25, 1.12, echo("TCP", "one", THREADS), is_against_transport=True),
    Row(15, "a call on threads, 1 in flight, against the two channels and threads of lsp-server", 1, None, [
        channels("TCP", "TCP", "antiphon"),
        channels("child process", "pipes", "antiphon, Child",
                 [ratio("over `Link::new`", sources.THREADS, "pipes: antiphon, Link::new", "pipes: lsp-server")])]),
    Row(16, "TCP echo, 64 begun together, the same, on tasks", 3.6, 2.5, echo("TCP", "many", TASKS), is_against_transport=True),
    Row(16, "the same on threads", 4.2, 2.5, echo("TCP", "many", THREADS), is_against_transport=True),
    Row(16, "TCP echo, batches of 100, the same, on tasks", 3.6, 2.5, echo("TCP", "batch", TASKS), is_against_transport=True),
    Row(16, "the same on threads", 4.2, 2.5, echo("TCP", "batch", THREADS), is_against_transport=True),
    Row("16b", "TCP echo, the crowd: 64 tasks that each call and await, over one connection", 6, 4.5,
        crowd("TCP", TASKS), is_against_transport=True),
    Row("16b", "the same on 16 threads", 40, 20, crowd("TCP", THREADS), is_against_transport=True),
    Row("16b", "writes of a call of the crowd, both sides", 0.1, 0.1, [
        Part("tokio", sources.COUNTS, ["antiphon tokio TCP: crowd, writes"], form="{:.3f}")]),
    Row(17, "WebSocket echo, the crowd, against bare tungstenite, on tasks", 4, 2.5,
        crowd("WebSocket", TASKS), is_against_transport=True),
    Row(17, "HTTP echo, 1 in flight, against bare hyper", 1.35, 1.15, http("", "one"), is_against_transport=True),
    Row(17, "HTTP echo, 64 callers, against bare hyper", 1.3, 1.15, http("", "many"), is_against_transport=True),
    Row(17, "an event of one HTTP reply against a body of bare hyper", 1.2, None,
        [events("one at a time", "one"), events("many", "many")], is_against_transport=True),
    Row(18, "what a router, typed params and an interceptor that does nothing add to an answer by hand, ns on the machine of the limits", 120, 60, [
        there("", "01", ROUTED, lambda routed, by_hand: routed - by_hand)]),
    Row(18, "the same in instructions", None, None, [
        added("", ROUTED, beside=[added("without params and interceptor", ["answer by a router", "answer by hand"])])]),
    Row(18, "rows 15 to 16b with router and typed client against themselves", 1.15, None,
        typed("one", "one", RUNTIMES) + typed("64", "many", TASKS) + typed("batch", "batch", RUNTIMES) + typed("crowd", "crowd", RUNTIMES)),
    Row(19, "bytes of an idle connection, the core alone", 1024, 512, [
        held("before its first message", "core, fresh"), held("has answered", "core, has answered"),
        held("has called", "core, has called")]),
    Row(19, "the same with an adapter over TCP, without the stacks of threads", 4608, 3584, [
        held(f"{adapter} {side}", f"{adapter} TCP, {side}")
        for adapter in ("blocking", "tokio", "smol") for side in ("server", "client")]),
    Row(19, "the same over WebSocket", 6 * 1024, None, [held(f"tokio {side}", f"tokio WebSocket, {side}") for side in ("server", "client")]),
    Row(20, "bytes of flash of the least echo peer for thumbv7em", 18_000, 15_000, [
        Part("", sources.FLASH, ["least"], form="{:.0f}", beside=[
            Part("with all that a configuration can say", sources.FLASH, ["antiphon"], form="{:.0f}"),
            Part("one with serde_json", sources.FLASH, ["serde_json"], form="{:.0f}"),
            Part("heap and stack of the echo peer", sources.MEMORY, ["antiphon-embedded-least"], form="{:.0f}")])]),
    Row(20, "the same with three methods", None, None, [
        Part("params from the text", sources.FLASH, ["untyped"], form="{:.0f}"),
        Part("as types", sources.FLASH, ["typed"], form="{:.0f}"),
        Part("through the router", sources.FLASH, ["routed"], form="{:.0f}"),
        Part("with serde_json", sources.FLASH, ["serde_methods"], form="{:.0f}")]),
    Row(21, "a byte that comes alone, in a frame of 387 bytes against one of 62, instructions (linear)", 1.25, 1.25, [
        linear(framing) for framing in ("Newline", "ContentLength", "Concatenated")]),
    Row(21, "a frame byte by byte against the whole", None, 3, [
        by_bytes(item, framing) for item in ("01", "09") for framing in ("Newline", "ContentLength", "Concatenated")]),
    Row(22, "decoding params and results against serde_json on the same text", 1.10, 1.0, [
        decode(item) for item in ITEMS if item != "05 resp_error"]),
    Row(23, "reading on a connection and decoding at once, against serde_json by hand that decodes as it reads", 0.9, 0.6, [
        decoded(item) for item in ITEMS]),
    Row(24, "a call of the crowd against what one would take instead, in the same run", 1, 1, [
        picked("tonic"), picked("tarpc JSON"), picked("async-lsp TCP"), picked("karyon_jsonrpc TCP"),
        picked("jsonrpsee WebSocket", "WebSocket")]),
    Row(24, "the same against one that is not made of text", None, 1, [picked("tarpc bincode")]),
    Row(26, "writing a float, instructions", 250, 160, [Part("", sources.COUNT, ["write a float"], form="{:.0f}")]),
    Row(26, "writing an error with Content-Length, against a struct of serde", 0.5, 0.4, [
        ratio("", sources.TIME, "encode error ContentLength", "encode error by serde_json",
              beside=[ratio("instructions", sources.COUNT, "encode error ContentLength", "encode error by serde_json")])]),
    SETUP,
    Row(16, "the bare echo over TCP on threads itself, µs a call", None, None, [
        bare("1 in flight", "one", 13.71), bare("64", "many", 0.23), bare("batches", "batch", 0.15)]),
    Row(16, "this service by hand, serde_json on threads without limits, deadlines or errors, against the bare echo", None, None,
        by_hand("1 in flight", "one") + by_hand("64", "many") + by_hand("batches", "batch")),
]

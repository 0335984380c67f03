//! Whatever the peer sends and however slowly it reads, a connection stays below
//! `Config::max_memory_bytes()`. A bad peer must reach at least half of it, because a bound that is
//! never approached would be useless.

use antiphon::{Config, Connection, ErrorObject, Event, Framing, Input, McpRevision, OwnedJson};
use antiphon_test_support::heap::measured;

/// The most heap that `run` holds at any moment beyond what was held before.
fn peak_of(run: impl FnOnce()) -> usize {
    let ((), used) = measured(run);
    used.most as usize
}

/// What a bad peer does, and what the application answers.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// Sends what is no JSON and never reads the errors.
    Garbage,
    /// Asks for its own words back, and never reads them. With one byte it gets the shortest answer
    /// instead, null.
    Echo { bytes: usize },
    /// As `Echo`, in batches whose last request is never answered, so that their other answers wait.
    Batches { items: usize, bytes: usize },
    /// Opens as many requests as it may, with the longest ids.
    LongIds,
    /// Sends nothing but the smallest items.
    SmallItems,
    /// Never answers the calls that this side makes.
    Silent,
}

/// Plays a conversation until the connection ends or refuses a call, but no more than two million rounds.
fn play(config: Config, peer: Peer) {
    let mut conn: Connection = Connection::new(config);
    let mut message = Vec::new();
    let mut held = Vec::new();
    for round in 0..2_000_000u64 {
        message.clear();
        match peer {
            Peer::Garbage => message.extend_from_slice(b"x"),
            Peer::Echo { bytes } => {
                message
                    .extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"");
                message.resize(message.len() + bytes, b'a');
                message.extend_from_slice(b"\"],\"id\":1}");
            }
            Peer::Batches { items, bytes } => {
                message.push(b'[');
                for _ in 0..items {
                    message.extend_from_slice(
                        b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"",
                    );
                    message.resize(message.len() + bytes, b'a');
                    message.extend_from_slice(b"\"],\"id\":1},");
                }
                message.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"hold\",\"id\":2}]");
            }
            Peer::LongIds => {
                message.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"hold\",\"id\":\"");
                message.extend_from_slice(format!("{round:08}").as_bytes());
                message.resize(
                    message.len() + config.limits.max_id_bytes.saturating_sub(10),
                    b'i',
                );
                message.extend_from_slice(b"\"}");
            }
            Peer::SmallItems => {
                message.push(b'[');
                for _ in 1..config.limits.max_batch_items {
                    message.extend_from_slice(b"1,");
                }
                message.extend_from_slice(b"1]");
            }
            Peer::Silent => {
                if conn.call("m", (), None, ()).is_err() {
                    return;
                }
                let waiting = conn.poll_transmit().map_or(0, <[u8]>::len);
                conn.consume_transmit(waiting);
                continue;
            }
        }
        let mut input = Input::message(&message);
        while let Some(event) = conn.poll_event(&mut input) {
            match event {
                Event::Request(request) if request.method == "echo" => {
                    // A typed result, whose size is not known before it is written.
                    let text = request.params.map(|params| params.as_str());
                    let shortest = matches!(peer, Peer::Echo { bytes: 1 });
                    if let Err(rejected) = conn.respond(request.token, text.filter(|_| !shortest)) {
                        let _ = conn.respond_err(rejected.value, &ErrorObject::internal_error());
                    }
                }
                // Tokens kept by the application are its own memory: keep few.
                Event::Request(request) => held.push(request.token),
                Event::Closed(_) => return,
                _ => {}
            }
        }
        if held.len() > 10_000 {
            held.truncate(10_000);
        }
    }
}

/// The worst of all peers against one configuration: bytes held, and who did it.
fn worst(config: Config) -> (usize, Peer) {
    // About 64 small answers fill the output. 15 items fit into one message, and their answers into one
    // answer of a batch.
    let small = config.limits.max_outbox_bytes / 64;
    let item = (config.limits.max_message_bytes / 20)
        .min(config.limits.max_batch_reply_bytes / 24)
        .max(1);
    let peers = [
        Peer::Garbage,
        Peer::Echo { bytes: 1 },
        Peer::Echo {
            bytes: small.min(config.limits.max_message_bytes / 2),
        },
        Peer::Echo {
            bytes: config.limits.max_message_bytes.saturating_sub(100),
        },
        Peer::Batches { items: 1, bytes: 1 },
        Peer::Batches {
            items: 15,
            bytes: item,
        },
        Peer::Batches {
            items: config.limits.max_batch_items.saturating_sub(1),
            bytes: 1,
        },
        Peer::LongIds,
        Peer::SmallItems,
        Peer::Silent,
    ];
    let results = peers.into_iter().map(|peer| {
        // The driver's own buffers are counted off: the message, whose vector may have grown to twice its
        // bytes, and the held tokens.
        let overhead = 2 * config.limits.max_message_bytes.min(4 << 20) + (512 << 10);
        (
            peak_of(|| play(config, peer)).saturating_sub(overhead),
            peer,
        )
    });
    results
        .max_by_key(|(bytes, _)| *bytes)
        .expect("there are peers")
}

/// Limits so small that every peer reaches them, and in such proportion that none hides another.
fn tight(framing: Framing) -> Config {
    let mut config = Config::new().framing(framing);
    config.limits.max_message_bytes = 64 << 10;
    config.limits.max_outbox_bytes = 8 << 20;
    config.limits.max_batch_reply_bytes = 1 << 20;
    config.limits.max_open_calls = 1000;
    config
}

// ARC-11 SEC-11 ARC-07
#[test]
fn the_worst_peer_stays_below_the_bound_and_comes_half_way() {
    let configs = [
        ("default", Config::new()),
        ("tight newline", tight(Framing::Newline)),
        ("tight messages", tight(Framing::Messages)),
        ("content-length", tight(Framing::ContentLength)),
    ];
    for (name, config) in configs {
        let bound = config.max_memory_bytes();
        let (bytes, peer) = worst(config);
        let percent = bytes * 100 / bound;
        println!("{name}: bound {bound} bytes, worst {bytes} bytes ({percent} %) by {peer:?}");
        assert!(bytes <= bound, "{name}: {bytes} of {bound} by {peer:?}");
        assert!(
            percent >= 50,
            "{name}: only {percent} % of the bound was reached"
        );
    }
}

// ARC-11 SEC-11
#[test]
fn calls_that_ended_before_they_were_written_stay_below_the_bound() {
    let framings = [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Messages,
    ];
    // The soft limit may also be above the hard one.
    for (framing, hard) in framings
        .into_iter()
        .flat_map(|it| [(it, 8 << 20), (it, 1 << 20)])
    {
        let mut config = Config::new().framing(framing);
        config.limits.max_open_calls = 1;
        config.limits.max_open_requests = 1;
        config.limits.max_batch_items = 1;
        config.limits.max_batch_reply_bytes = 1 << 10;
        config.limits.soft_max_outbox_bytes = 8 << 20;
        config.limits.max_outbox_bytes = hard;
        let bytes = peak_of(|| {
            let mut conn: Connection = Connection::new(config);
            // The peer does not read, and the application gives up each call at once.
            while let Ok(call) = conn.call("m", (), None, ()) {
                assert!(conn.cancel(call).is_some());
            }
        });
        let bound = config.max_memory_bytes();
        println!("{framing:?}, hard limit {hard}: bound {bound} bytes, held {bytes} bytes");
        assert!(bytes <= bound, "{framing:?}, {hard}: {bytes} of {bound}");
        assert!(
            bytes * 2 >= bound,
            "{framing:?}, {hard}: {bytes} of {bound}"
        );
    }
}

// ARC-11
#[test]
fn the_bound_is_finite_for_every_preset() {
    let presets = [
        Config::strict(),
        Config::v1(),
        Config::mixed(),
        Config::lsp(),
        Config::mcp(McpRevision::V2024_11_05),
        Config::mcp(McpRevision::V2025_03_26),
        Config::mcp(McpRevision::V2025_06_18),
        Config::mcp(McpRevision::V2025_11_25),
        Config::mcp(McpRevision::V2026_07_28),
        Config::acp(antiphon::AcpVersion::V1),
        Config::acp(antiphon::AcpVersion::V2),
        Config::ethereum(),
        Config::bitcoin(),
        Config::bitcoin_legacy(),
        Config::electrum(),
        Config::kodi(),
    ];
    for config in presets {
        assert!(config.max_memory_bytes() < 1 << 30, "{config:?}");
        assert!(config.max_input_bytes() < 128 << 20, "{config:?}");
    }
}

// SEC-11 D-14
#[test]
fn memory_follows_the_bytes_received_not_the_length_declared() {
    let config = Config::new().framing(Framing::ContentLength);
    let peak = peak_of(|| {
        let mut conn: Connection = Connection::new(config);
        let header = b"Content-Length: 9223372036854775807\r\n\r\n";
        let mut input = Input::stream(header);
        while conn.poll_event(&mut input).is_some() {}
        assert_eq!(input.consumed(), header.len());
        for _ in 0..1000 {
            let mut input = Input::stream(&[b'x'; 1000]);
            assert!(conn.poll_event(&mut input).is_none());
            assert_eq!(input.consumed(), 1000);
        }
    });
    assert!(peak < 4096, "{peak} bytes");
}

#[test]
fn a_new_connection_holds_no_heap() {
    let peak = peak_of(|| {
        let _conn: Connection<OwnedJson> = Connection::new(Config::new());
    });
    assert_eq!(peak, 0);
}

// ARC-11 SEC-11
#[test]
fn a_result_found_too_large_leaves_no_room_behind() {
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 1000;
    config.limits.max_outbox_bytes = 2000;
    config.limits.max_batch_reply_bytes = 500;
    config.limits.max_open_requests = 17;
    config.limits.max_open_calls = 4;
    config.limits.max_batch_items = 4;
    config.limits.max_id_bytes = 16;
    let bound = config.max_memory_bytes();
    let large = "x".repeat(20 * bound);
    let ask = |id: u32| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":{id}}}");
    let mut conn: Connection = Connection::new(config);
    // Something waits, so that the output is not simply given back; then one request alone, and
    // some in batches of their own that stay open.
    let mut received = format!("x\n{}\n", ask(1));
    for id in 2..10 {
        received += &format!("[{},{}]\n", ask(2 * id), ask(2 * id + 1));
    }
    let mut answer_all = || {
        let mut input = Input::stream(received.as_bytes());
        let mut held = Vec::with_capacity(100);
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = event {
                let rejected = conn.respond(request.token, large.as_str());
                held.push(rejected.expect_err("the result is too large").value);
            }
        }
        held
    };
    let (held, used) = measured(&mut answer_all);
    let tokens = 100 * size_of::<antiphon::ReplyToken>();
    let left = used.left as usize - tokens;
    assert!(left <= bound, "{left} bytes of {bound}");
    assert_eq!(conn.requests_open(), held.len());
}

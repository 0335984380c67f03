//! A frame that comes byte by byte, and the same whole (row 21).

mod corpus;

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input, ReadBuffer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Feeds the frame in pieces of a given length, and answers the request in it.
fn show(conn: &mut Connection, buffer: &mut ReadBuffer, frame: &[u8], step: usize) {
    for part in frame.chunks(step) {
        buffer.spare()[..part.len()].copy_from_slice(part);
        buffer.advance(part.len());
        let mut input = Input::stream(buffer.filled());
        while let Some(event) = conn.poll_event(&mut input) {
            if let Event::Request(request) = black_box(event) {
                conn.respond(request.token, ()).expect("it is open");
                conn.consume_transmit(usize::MAX);
            }
        }
        let consumed = input.consumed();
        buffer.consume(consumed);
    }
}

fn feed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("feed");
    let corpus = corpus::corpus();
    for item in ["01 req_small", "09 mcp_tools_call"] {
        let found = corpus.iter().find(|one| one.name == item);
        let text = &found.expect("it is in the corpus").messages[0];
        for framing in [Framing::Newline, Framing::ContentLength] {
            let frame = match framing {
                Framing::Newline => format!("{text}\n"),
                _ => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
            };
            let config = Config::new().framing(framing);
            for (how, step) in [("by bytes", 1), ("whole", frame.len())] {
                let mut conn: Connection = Connection::new(config);
                let mut buffer = ReadBuffer::new(config.max_input_bytes());
                group.throughput(Throughput::Bytes(frame.len() as u64));
                group.bench_function(format!("{item} {framing:?} {how}"), |bencher| {
                    bencher
                        .iter(|| show(&mut conn, &mut buffer, black_box(frame.as_bytes()), step));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, feed);
criterion_main!(benches);

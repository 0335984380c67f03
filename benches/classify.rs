//! What reading costs, by item of the corpus: by a `Reader`, which only reads (rows 1, 2, 4 to 7), and on a connection, where
//! a message becomes an event and requests are answered with null, or the connection would fill up.

mod corpus;

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input, Reader};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn classify(criterion: &mut Criterion) {
    let mut config = Config::new().framing(Framing::Messages);
    config.limits.max_message_bytes = 2 << 20;
    let mut group = criterion.benchmark_group("classify");
    for item in corpus::corpus().into_iter().chain([corpus::recorded()]) {
        group.throughput(Throughput::Bytes(item.bytes() as u64));
        let mut reader = Reader::new(config);
        group.bench_function(format!("{} by a reader", item.name), |bencher| {
            bencher.iter(|| {
                for text in &item.messages {
                    let read = reader.read(black_box(text.as_bytes()));
                    for message in read.expect("the corpus is valid") {
                        black_box(&message);
                    }
                }
            });
        });
        let mut conn: Connection = Connection::new(config);
        group.bench_function(format!("{} on a connection", item.name), |bencher| {
            bencher.iter(|| {
                for text in &item.messages {
                    let mut input = Input::message(black_box(text.as_bytes()));
                    while let Some(event) = conn.poll_event(&mut input) {
                        if let Event::Request(request) = black_box(event) {
                            conn.respond(request.token, ()).expect("it is open");
                            conn.consume_transmit(usize::MAX);
                        }
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);

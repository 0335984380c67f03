//! A call, its request, the answer and its result, between two connections in memory (row 14).

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input};
use criterion::{Criterion, criterion_group, criterion_main};

const FRAMINGS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Messages,
];

fn show<'a>(framing: Framing, bytes: &'a [u8]) -> Input<'a> {
    match framing {
        Framing::Messages => Input::message(bytes),
        _ => Input::stream(bytes),
    }
}

fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round_trip");
    for framing in FRAMINGS {
        let config = Config::new().framing(framing);
        let (mut client, mut server): (Connection, Connection) =
            (Connection::new(config), Connection::new(config));
        let mut wire = Vec::new();
        group.bench_function(format!("{framing:?}"), |bencher| {
            bencher.iter(|| {
                client
                    .call("add", black_box(&(10, 5)), None, ())
                    .expect("there is room");
                wire.clear();
                client.take_transmit(&mut wire);
                let mut input = show(framing, &wire);
                while let Some(event) = server.poll_event(&mut input) {
                    if let Event::Request(request) = event {
                        let (a, b): (i64, i64) = request
                            .params
                            .expect("two numbers")
                            .decode()
                            .expect("two numbers");
                        server.respond(request.token, &(a + b)).expect("it is open");
                    }
                }
                wire.clear();
                server.take_transmit(&mut wire);
                let mut input = show(framing, &wire);
                while let Some(event) = client.poll_event(&mut input) {
                    black_box(event);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, round_trip);
criterion_main!(benches);

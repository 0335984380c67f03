//! A batch of 100: between two connections from the first entry to the last result, and the server's part alone, from the
//! array to its answer.

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn batch_100(criterion: &mut Criterion) {
    let config = Config::new().framing(Framing::Messages);
    let (mut client, mut server): (Connection, Connection) =
        (Connection::new(config), Connection::new(config));
    let mut wire = Vec::new();
    let mut group = criterion.benchmark_group("batch_100");
    group.throughput(Throughput::Elements(100));
    let serve = |server: &mut Connection, message: &[u8]| {
        let mut input = Input::message(message);
        while let Some(event) = server.poll_event(&mut input) {
            if let Event::Request(request) = event {
                server
                    .respond(request.token, request.params)
                    .expect("it is open");
            }
        }
    };
    group.bench_function("both sides", |bencher| {
        bencher.iter(|| {
            let mut batch = client.batch(None);
            for n in 0..100_u64 {
                let _ = batch
                    .call::<u64>("square", black_box(&[n]), ())
                    .expect("there is room");
            }
            batch.send().expect("it has entries");
            wire.clear();
            client.take_transmit(&mut wire);
            serve(&mut server, &wire);
            wire.clear();
            server.take_transmit(&mut wire);
            let mut input = Input::message(&wire);
            while let Some(event) = client.poll_event(&mut input) {
                black_box(event);
            }
        });
    });
    let one = |n| format!(r#"{{"jsonrpc":"2.0","method":"square","params":[{n}],"id":{n}}}"#);
    let message = format!("[{}]", (0..100).map(one).collect::<Vec<_>>().join(","));
    group.bench_function("theirs", |bencher| {
        bencher.iter(|| {
            serve(&mut server, black_box(message.as_bytes()));
            server.consume_transmit(usize::MAX);
        });
    });
    group.finish();
}

criterion_group!(benches, batch_100);
criterion_main!(benches);

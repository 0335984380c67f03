//! A call while many others are open: what the table of calls costs, with deadlines (rows 12 and 13). Once with its reply,
//! once given up, and beside these a notification, which is the same without the table.

use std::hint::black_box;
use std::io::Write;

use antiphon::{Config, Connection, Framing, Input, Instant};
use criterion::{Criterion, criterion_group, criterion_main};

fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("calls");
    for open in [1_u64, 100, 10_000, 1_000_000] {
        let mut config = Config::new().framing(Framing::Messages);
        config.limits.max_open_calls = 1 << 21;
        let mut conn: Connection<u64> = Connection::new(config);
        let far = Some(Instant::from_millis(1 << 40));
        for tag in 1..open {
            conn.call("slow", (), far, tag).expect("there is room");
            conn.consume_transmit(usize::MAX);
        }
        let mut reply = Vec::new();
        group.bench_function(format!("{open} open"), |bencher| {
            bencher.iter(|| {
                let call = conn.call("quick", (), far, 0).expect("there is room");
                conn.consume_transmit(usize::MAX);
                reply.clear();
                write!(
                    reply,
                    r#"{{"jsonrpc":"2.0","result":1,"id":{}}}"#,
                    call.number()
                )
                .expect("a vector takes all");
                let mut input = Input::message(&reply);
                while let Some(event) = conn.poll_event(&mut input) {
                    black_box(event);
                }
            });
        });
        group.bench_function(format!("{open} open, given up"), |bencher| {
            bencher.iter(|| {
                let call = conn.call("quick", (), far, 0).expect("there is room");
                black_box(conn.cancel(call));
                conn.consume_transmit(usize::MAX);
            });
        });
    }
    let mut conn: Connection<u64> = Connection::new(Config::new().framing(Framing::Messages));
    group.bench_function("a notification", |bencher| {
        bencher.iter(|| {
            conn.notify("quick", ()).expect("there is room");
            conn.consume_transmit(usize::MAX);
        });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);

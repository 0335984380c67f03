//! One message into the output, by framing: a small value, a value of 20 KB that is serialised, and
//! the same as text that is JSON already.

use std::hint::black_box;

use antiphon::{Config, Connection, Framing, Json};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::Serialize;

#[derive(Serialize)]
struct Item {
    id: u32,
    name: String,
    price: f64,
    tags: [&'static str; 2],
}

const FRAMINGS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Messages,
];

fn encode(criterion: &mut Criterion) {
    let item = |id| Item {
        id,
        name: format!("item {id}"),
        price: f64::from(id) + 0.25,
        tags: ["a", "b"],
    };
    let items: Vec<Item> = (0..320).map(item).collect();
    let text = serde_json::to_string(&items).expect("it has a JSON form");
    let json = Json::parse_str(&text).expect("it is JSON");
    let mut group = criterion.benchmark_group("encode");
    for framing in FRAMINGS {
        let mut conn: Connection = Connection::new(Config::new().with_framing(framing));
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("{framing:?} small"), |bencher| {
            bencher.iter(|| {
                conn.notify("subtract", black_box(&(42, 23)))
                    .expect("there is room");
                conn.consume_transmit(usize::MAX);
            });
        });
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("{framing:?} serialised"), |bencher| {
            bencher.iter(|| {
                conn.notify("store", black_box(&items))
                    .expect("there is room");
                conn.consume_transmit(usize::MAX);
            });
        });
        group.bench_function(format!("{framing:?} as text"), |bencher| {
            bencher.iter(|| {
                conn.notify("store", black_box(json))
                    .expect("there is room");
                conn.consume_transmit(usize::MAX);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, encode);
criterion_main!(benches);

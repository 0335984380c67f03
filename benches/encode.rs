//! One message into the output, by framing (rows 9 and 10): two numbers, 24 KB and 1 MiB of the corpus as text that is JSON
//! already, and a list of 20 KB that is serialised.

mod corpus;

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
    let corpus = corpus::corpus();
    let part = |item: &str, member| {
        let found = corpus.iter().find(|one| one.name == item);
        let text = &found.expect("it is in the corpus").messages[0];
        let json = Json::parse_str(text).expect("it is JSON");
        json.get(member).expect("it has one")
    };
    let texts = [
        ("small", Json::parse_str("[42,23]").expect("it is JSON")),
        ("24 KB", part("06 eth_block_30k", "result")),
        ("1 MiB", part("07 params_1m", "params")),
    ];
    let mut group = criterion.benchmark_group("encode");
    for framing in FRAMINGS {
        let mut config = Config::new().framing(framing);
        config.limits.max_outbox_bytes = 4 << 20;
        let mut conn: Connection = Connection::new(config);
        for (name, json) in texts {
            group.throughput(Throughput::Bytes(json.len() as u64));
            group.bench_function(format!("{framing:?} {name}"), |bencher| {
                bencher.iter(|| {
                    conn.notify("store", black_box(json))
                        .expect("there is room");
                    conn.consume_transmit(usize::MAX);
                });
            });
        }
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("{framing:?} serialised"), |bencher| {
            bencher.iter(|| {
                conn.notify("store", black_box(&items))
                    .expect("there is room");
                conn.consume_transmit(usize::MAX);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, encode);
criterion_main!(benches);

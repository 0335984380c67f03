//! One message to one event, through the public API: what reading costs, by kind of message.
//!
//! Requests are answered with null and the answer is taken, or the connection would fill up.

use std::hint::black_box;

use antiphon::{Config, Connection, Event, Framing, Input};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Name and text, from the smallest message to a document.
fn corpus() -> Vec<(&'static str, String)> {
    let text = "fn main() {\\n    println!(\\\"grüße\\\");\\n}\\n";
    let item = |n| {
        format!(r#"{{"id":{n},"name":"item {n}","price":{n}.25,"tags":["a","b"],"stock":null}}"#)
    };
    let items: Vec<String> = (0..200).map(item).collect();
    let batch = |n: usize| {
        let one = |i| format!(r#"{{"jsonrpc":"2.0","method":"tell","params":[{i},"x"]}}"#);
        format!("[{}]", (0..n).map(one).collect::<Vec<_>>().join(","))
    };
    vec![
        ("notification without params", r#"{"jsonrpc":"2.0","method":"tick"}"#.into()),
        ("notification by position", r#"{"jsonrpc":"2.0","method":"tick","params":[1,2.5,"three"]}"#.into()),
        ("request by position", r#"{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}"#.into()),
        ("request by name", r#"{"jsonrpc":"2.0","method":"subtract","params":{"minuend":42,"subtrahend":23},"id":"a-1"}"#.into()),
        ("request with a UUID", r#"{"jsonrpc":"2.0","method":"get","params":["k"],"id":"123e4567-e89b-42d3-a456-426614174000"}"#.into()),
        ("stray result", r#"{"jsonrpc":"2.0","result":{"ok":true},"id":999}"#.into()),
        ("stray error", r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":999}"#.into()),
        ("hover", r#"{"jsonrpc":"2.0","method":"textDocument/hover","params":{"textDocument":{"uri":"file:///home/user/project/src/main.rs"},"position":{"line":12,"character":7}},"id":57}"#.into()),
        ("blanks between tokens", "{ \"jsonrpc\" : \"2.0\" ,\n  \"method\" : \"tick\" ,\n  \"params\" : [ 1 , 2 , 3 ]\n}".into()),
        ("batch of 10", batch(10)),
        ("batch of 100", batch(100)),
        ("array of 200 objects", format!(r#"{{"jsonrpc":"2.0","method":"store","params":[{}]}}"#, items.join(","))),
        ("document of 40 KB", format!(r#"{{"jsonrpc":"2.0","method":"open","params":{{"text":"{}"}}}}"#, text.repeat(1000))),
        ("text of 256 KB", format!(r#"{{"jsonrpc":"2.0","method":"open","params":["{}"]}}"#, "plain text without escapes ".repeat(9700))),
    ]
}

fn classify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("classify");
    for (name, text) in corpus() {
        let mut conn: Connection = Connection::new(Config::new().with_framing(Framing::Messages));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut input = Input::message(black_box(text.as_bytes()));
                while let Some(event) = conn.poll_event(&mut input) {
                    if let Event::Request(request) = black_box(event) {
                        conn.respond(request.token, ()).expect("it is open");
                        conn.consume_transmit(usize::MAX);
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);

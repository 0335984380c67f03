//! What the programs share: the calls and answers for the points of `../../checklist.py`.

use serde_json::{Value, json};

/// The error code of a request for a method that does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// More than 1 MiB, not ASCII.
pub fn long_text() -> String {
    "äß€😀".repeat(100_000)
}

/// The params of `fail`, and the error that it gives.
pub fn failure() -> Value {
    json!({"code": 7, "message": "failed", "data": {"x": [1, "é€"]}})
}

/// The 100 calls of the point `order`, and what each gives.
pub fn unordered() -> Vec<(&'static str, Value, Value)> {
    let mut calls = Vec::new();
    for i in 0..50 {
        calls.push(("sleep", json!([400 - 8 * i]), json!("slept")));
        calls.push(("echo", json!([i]), json!([i])));
    }
    calls
}

/// Fails if the first of them, which sleeps longest, ended first.
pub fn assert_unordered(ended: &[usize]) {
    let place = ended.iter().position(|call| *call == 0);
    assert!(
        place > Some(0),
        "answered in the order of the calls: {ended:?}"
    );
}

/// `subtract`, by position or by name.
pub fn difference(params: &Value) -> Option<i64> {
    let number = |place: usize, name: &str| match params {
        Value::Array(items) => items.get(place)?.as_i64(),
        params => params.get(name)?.as_i64(),
    };
    number(0, "minuend")?.checked_sub(number(1, "subtrahend")?)
}

/// Says that a point held.
pub fn seen(point: &str) {
    println!("seen {point}");
}

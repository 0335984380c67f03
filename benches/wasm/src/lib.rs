//! The operations of `benches/instructions` as a WebAssembly module: `run.mjs` in this package measures how long
//! reading takes, with antiphon and with serde_json, in one module.
//!
//! Rule: the code and the texts that are measured are those of the other benches. Only the clock is outside, in
//! `run.mjs`.

#[path = "../../corpus/mod.rs"]
mod corpus;
#[path = "../../instructions/src/decoding.rs"]
#[allow(dead_code, reason = "only the reading is measured here")]
mod decoding;
#[path = "../../instructions/src/operations.rs"]
#[allow(dead_code, reason = "only the reading is measured here")]
mod operations;
#[path = "../../instructions/src/serde_typed.rs"]
mod serde_typed;
#[path = "../../instructions/src/tables.rs"]
#[allow(dead_code, reason = "only the reading is measured here")]
mod tables;

use std::cell::RefCell;

use operations::Named;

thread_local! {
    static OPERATIONS: RefCell<Vec<Named>> = RefCell::new(operations_in_turn());
}

/// Each item by antiphon alone, within a conversation, and by serde_json.
fn operations_in_turn() -> Vec<Named> {
    let corpus = corpus::corpus();
    let mut reading = operations::reading(&corpus).into_iter();
    let mut all = Vec::new();
    for receive in operations::receiving(&corpus) {
        all.extend(reading.next());
        all.push(receive);
        all.extend(reading.next());
    }
    all
}

fn with<R>(index: usize, what: impl FnOnce(&mut Named) -> R) -> Option<R> {
    OPERATIONS.with_borrow_mut(|operations| operations.get_mut(index).map(what))
}

/// How many operations there are: reading each item, by antiphon alone, within a conversation, and by serde_json.
#[unsafe(no_mangle)]
pub extern "C" fn operations() -> usize {
    OPERATIONS.with_borrow(Vec::len)
}

/// Runs the operation with this index: it reads [`count`] messages.
#[unsafe(no_mangle)]
pub extern "C" fn run(index: usize) {
    with(index, |named| named.operation.run());
}

/// Prepares the next run. Its time is not measured.
#[unsafe(no_mangle)]
pub extern "C" fn between(index: usize) {
    with(index, |named| named.operation.between());
}

/// How many messages one run reads.
#[unsafe(no_mangle)]
pub extern "C" fn count(index: usize) -> u32 {
    with(index, |named| named.operation.count() as u32).unwrap_or(0)
}

/// The address of the name of an operation.
#[unsafe(no_mangle)]
pub extern "C" fn name(index: usize) -> *const u8 {
    with(index, |named| named.name.as_ptr()).unwrap_or(std::ptr::null())
}

/// The length of that name, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn name_len(index: usize) -> usize {
    with(index, |named| named.name.len()).unwrap_or(0)
}

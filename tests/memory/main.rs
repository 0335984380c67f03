//! What a connection allocates and how much memory it holds, by an allocator that counts for each thread.

mod allocations;
mod bound;
mod durable;
mod output;
mod topics;

use antiphon_test_support::heap::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_thread();

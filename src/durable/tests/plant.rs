//! Faults that the model must catch by name, for tests only.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::cell::Cell;

use crate::durable::Detached;
use crate::durable::machine::Conn;

/// What is wrong with the machine, on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    Nothing,
    /// A connection that was taken over is sent messages as before.
    TakeoverLeavesBothAttached,
    /// What comes again does not come in its order.
    RedeliveryOutOfOrder,
}

std::thread_local! {
    static PLANT: Cell<Plant> = const { Cell::new(Plant::Nothing) };
}

pub(super) fn plant(fault: Plant) {
    PLANT.set(fault);
}

/// When a subscription is taken from a connection.
pub(in crate::durable) fn leave(conn: &mut Conn, name: &Arc<str>, why: Option<Detached>) {
    if PLANT.get() == Plant::TakeoverLeavesBothAttached && why == Some(Detached::TakenOver) {
        conn.subscriptions.insert(name.clone());
    }
}

/// When there is something to do for a subscription.
pub(in crate::durable) fn wake(connections: &mut BTreeMap<u64, Conn>, name: &Arc<str>) {
    let attached = connections.values_mut();
    for conn in attached.filter(|conn| conn.subscriptions.contains(name)) {
        if PLANT.get() == Plant::TakeoverLeavesBothAttached && !conn.active.contains(name) {
            conn.active.push_back(name.clone());
        }
    }
}

/// Whether a new consumer gets the oldest message last.
pub(in crate::durable) fn passes_the_first() -> bool {
    PLANT.get() == Plant::RedeliveryOutOfOrder
}

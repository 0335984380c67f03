//! Iterators as streams: `next` may block, so it runs on a thread of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use antiphon::OwnedError;
use futures_util::stream::{self, Stream};

use crate::slot::Slot;

/// Where one item is put; the error is the panic of `next`.
type Wanted<T> = Arc<Slot<thread::Result<Option<Item<T>>>>>;

type Item<T> = Result<T, OwnedError>;

/// Makes a stream of an iterator. Its thread begins with the first poll, and ends when the stream is dropped and `next`
/// returns.
pub(crate) fn stream<T: Send + 'static>(
    items: impl Iterator<Item = Item<T>> + Send + 'static,
) -> impl Stream<Item = Item<T>> + Send {
    let (wants, wanted) = channel::<Wanted<T>>();
    let mut unstarted = Some((items, wanted));
    stream::unfold(wants, move |wants| {
        let started = match unstarted.take() {
            Some((items, wanted)) => start(items, wanted),
            None => Ok(()),
        };
        async move {
            if let Err(error) = started {
                return Some((Err(error), wants));
            }
            let slot = Slot::new();
            // After the end of the iterator there is no thread.
            wants.send(Arc::clone(&slot)).ok()?;
            let next = poll_fn(|cx| slot.poll(cx.waker())).await;
            let item = next.unwrap_or_else(|panic| resume_unwind(panic))?;
            Some((item, wants))
        }
    })
}

fn start<T: Send + 'static>(
    mut items: impl Iterator<Item = Item<T>> + Send + 'static,
    wanted: Receiver<Wanted<T>>,
) -> Result<(), OwnedError> {
    let run = move || {
        for slot in wanted {
            let next = catch_unwind(AssertUnwindSafe(|| items.next()));
            let goes_on = matches!(next, Ok(Some(_)));
            slot.put(next).into_iter().for_each(|waker| waker.wake());
            if !goes_on {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("antiphon-flow".into());
    let started = thread.spawn(run).map(drop);
    started.map_err(|error| OwnedError::internal(error.into()))
}

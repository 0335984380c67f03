//! Iterators as streams: `next` may block, so it runs on a thread of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Waker;
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
    mut items: impl Iterator<Item = Item<T>> + Send + 'static,
) -> impl Stream<Item = Item<T>> + Send {
    let (wants, wanted) = channel::<Wanted<T>>();
    let mut run = Some(move || {
        for slot in wanted {
            let next = catch_unwind(AssertUnwindSafe(|| items.next()));
            let is_last = !matches!(next, Ok(Some(_)));
            slot.put(next).into_iter().for_each(Waker::wake);
            if is_last {
                break;
            }
        }
    });
    stream::unfold(wants, move |wants| {
        let named = || thread::Builder::new().name("antiphon-flow".into());
        let started = run.take().map(|run| named().spawn(run));
        async move {
            if let Some(Err(error)) = started {
                return Some((Err(OwnedError::internal(error.into())), wants));
            }
            let slot = Slot::new();
            // After the last item there is no thread.
            wants.send(Arc::clone(&slot)).ok()?;
            let next = poll_fn(|cx| slot.poll(cx.waker())).await;
            let item = next.unwrap_or_else(|panic| resume_unwind(panic))?;
            Some((item, wants))
        }
    })
}

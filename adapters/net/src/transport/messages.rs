//! A transport of whole messages: a message queue, a WebSocket of somebody else's, a channel.
//!
//! The rule guarded here: one message in is one message out; nothing is cut or joined.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::transport::io::{Io, Messages};

/// [`Messages`] as what a connection is driven over.
#[derive(Debug)]
pub struct MessageIo<M>(pub M);

impl<M: Messages> Io for MessageIo<M> {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, buf).map_ok(|()| buf.len())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }

    fn as_messages(&mut self) -> Option<&mut dyn Messages> {
        Some(&mut self.0)
    }
}

/// A bounded queue of messages in memory, with any number of senders and receivers: each message
/// is received once. Clones are the same queue.
#[derive(Clone)]
pub struct Queue {
    inside: Arc<Mutex<Inside>>,
    messages_max: usize,
}

#[derive(Default)]
struct Inside {
    messages: VecDeque<Vec<u8>>,
    is_ended: bool,
    wakers: Vec<Waker>,
}

impl Queue {
    /// An empty queue with room for `messages_max` messages, at least one.
    pub fn new(messages_max: usize) -> Self {
        Self {
            inside: Arc::default(),
            messages_max: messages_max.max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inside)) {
        let mut inside = self.lock();
        change(&mut inside);
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the next message; none at the end.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut inside = self.lock();
        let Some(message) = inside.messages.pop_front() else {
            if inside.is_ended {
                return Poll::Ready(None);
            }
            inside.wakers.push(cx.waker().clone());
            return Poll::Pending;
        };
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(message))
    }

    /// Puts a message in, once there is room.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) after the end.
    pub fn poll_put(&self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        let mut inside = self.lock();
        if inside.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if inside.messages.len() >= self.messages_max {
            inside.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(inside);
        self.change(|inside| inside.messages.push_back(message.to_vec()));
        Poll::Ready(Ok(()))
    }

    /// Ends the queue: what is in it can still be taken.
    pub fn end(&self) {
        self.change(|inside| inside.is_ended = true);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("messages", &self.lock().messages.len())
            .finish_non_exhaustive()
    }
}

/// One who publishes to one queue and consumes another: a client publishes requests and consumes
/// responses, a server the other way round. When several clients share the queue of responses,
/// give their ids a prefix of their own ([`antiphon::IdScheme`]); each then leaves what is meant
/// for another alone, if the transport lets each see all.
#[derive(Debug)]
pub struct QueueTransport {
    consume: Queue,
    publish: Queue,
    ends_publish: bool,
}

impl QueueTransport {
    /// Consumes from one queue and publishes to another, which stays open when the connection
    /// ends, for others may publish to it too.
    pub fn new(consume: Queue, publish: Queue) -> Self {
        Self {
            consume,
            publish,
            ends_publish: false,
        }
    }

    /// The same, ending the queue that is published to with the connection: nobody else does.
    #[must_use]
    pub fn owning(mut self) -> Self {
        self.ends_publish = true;
        self
    }
}

impl Messages for QueueTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        self.consume.poll_take(cx).map(Ok)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.publish.poll_put(cx, message)
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ends_publish {
            self.publish.end();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for QueueTransport {
    fn drop(&mut self) {
        if self.ends_publish {
            self.publish.end();
        }
    }
}

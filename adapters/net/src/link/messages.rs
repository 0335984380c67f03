//! Transports of whole messages: a message queue, a WebSocket of another library, a channel.
//! Messages are never split or joined.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_channel::{Receiver, Sender, bounded};
use futures_util::Stream;
use futures_util::future::BoxFuture;

use antiphon_shell::MessageTransport;
use antiphon_shell::debug_fields;

/// A queue in memory for a limited number of messages, with any number of senders and receivers.
/// Each message is received once, by one of them. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct Queue {
    sender: Sender<Vec<u8>>,
    receiver: Receiver<Vec<u8>>,
}

impl Queue {
    /// Makes an empty queue for `max_messages` messages, at least one.
    pub fn new(max_messages: usize) -> Self {
        let (sender, receiver) = bounded(max_messages.max(1));
        Self { sender, receiver }
    }

    /// Takes the next message; `None` at the end. If the future is dropped before, no message is lost.
    pub async fn take(&self) -> Option<Vec<u8>> {
        self.receiver.recv().await.ok()
    }

    /// Adds a message, as soon as there is space. If the future is dropped before, nothing is added.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) after [`end`](Self::end).
    pub async fn put(&self, message: Vec<u8>) -> io::Result<()> {
        send(self.sender.clone(), message).await
    }

    /// Ends the queue: messages in it can still be taken.
    pub fn end(&self) {
        self.sender.close();
    }
}

async fn send(sender: Sender<Vec<u8>>, message: Vec<u8>) -> io::Result<()> {
    let sent = sender.send(message).await;
    sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// A transport that receives from one queue and sends to another. A client sends requests and
/// receives responses, a server the other way round. Clients must not share a queue of responses,
/// because one client would take the response that is for another. They can share a broker's topic,
/// which delivers each message to all: then each client has a prefix for its ids
/// ([`antiphon::IdScheme`]), and ignores the responses to others.
pub struct QueueTransport {
    consume: Pin<Box<Receiver<Vec<u8>>>>,
    publish: Sender<Vec<u8>>,
    /// The message that waits for space.
    sending: Option<BoxFuture<'static, io::Result<()>>>,
    ends_publish: bool,
}

impl QueueTransport {
    /// Receives from `consume` and sends to `publish`, which stays open when the connection ends, because
    /// other connections may send to it too.
    pub fn new(consume: Queue, publish: Queue) -> Self {
        Self {
            consume: Box::pin(consume.receiver),
            publish: publish.sender,
            sending: None,
            ends_publish: false,
        }
    }

    /// Ends the queue `publish` when the connection ends, because no other connection sends to it.
    #[must_use]
    pub fn owning(mut self) -> Self {
        self.ends_publish = true;
        self
    }

    fn end(&self) {
        if self.ends_publish {
            self.publish.close();
        }
    }
}

impl MessageTransport for QueueTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        self.consume.as_mut().poll_next(cx).map(Ok)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        let publish = &self.publish;
        let begin = || Box::pin(send(publish.clone(), message.to_vec())) as _;
        let sending = self.sending.get_or_insert_with(begin);
        let sent = ready!(sending.as_mut().poll(cx));
        self.sending = None;
        Poll::Ready(sent)
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for QueueTransport {
    fn drop(&mut self) {
        self.end();
    }
}

debug_fields!(impl[] QueueTransport as "QueueTransport" {});

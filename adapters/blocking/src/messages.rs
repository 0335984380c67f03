//! Two blocking functions as a transport of whole messages: each runs on a thread while it is called.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use antiphon_net::{MessageTransport, caught};
use blocking::{Task, unblock};

/// Waits for the next message; returns `None` at the end.
type Receive = Box<dyn FnMut() -> io::Result<Option<Vec<u8>>> + Send>;

/// Sends a message.
type Deliver = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// The two functions of a transport.
pub(crate) struct Messages {
    receive: Half<Receive, Option<Vec<u8>>>,
    send: Half<Deliver, ()>,
}

/// A function: here, or on the thread that calls it. `None` after the end.
enum Half<F, T> {
    Here(Option<F>),
    Called(Task<(F, io::Result<T>)>),
}

impl Messages {
    pub(crate) fn new(
        receive: impl FnMut() -> io::Result<Option<Vec<u8>>> + Send + 'static,
        send: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self {
            receive: Half::Here(Some(Box::new(receive))),
            send: Half::Here(Some(Box::new(send))),
        }
    }
}

impl<F: Send + 'static, T: Send + 'static> Half<F, T> {
    /// Calls the function on a thread, unless it is being called, and waits for its result.
    fn poll<C>(&mut self, cx: &mut Context<'_>, call: impl FnOnce() -> C) -> Poll<io::Result<T>>
    where
        C: FnOnce(&mut F) -> io::Result<T> + Send + 'static,
    {
        if let Self::Here(function) = self {
            let Some(mut function) = function.take() else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            let call = call();
            *self = Self::Called(unblock(move || {
                let called = caught(|| call(&mut function));
                let failed = || Err(io::Error::other("the transport panicked"));
                (function, called.unwrap_or_else(failed))
            }));
        }
        let Self::Called(task) = self else {
            return Poll::Pending;
        };
        let (function, result) = ready!(Pin::new(task).poll(cx));
        *self = Self::Here(Some(function));
        Poll::Ready(result)
    }
}

impl MessageTransport for Messages {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        self.receive.poll(cx, || |receive: &mut Receive| receive())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        self.send.poll(cx, || {
            let message = message.to_vec();
            move |send: &mut Deliver| send(&message)
        })
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Dropping the function ends the direction, once no message is being sent.
        if let Half::Called(_) = &self.send {
            // Its result is of no use any more.
            let _ = ready!(self.poll_send(cx, &[]));
        }
        self.send = Half::Here(None);
        Poll::Ready(Ok(()))
    }
}

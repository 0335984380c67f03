//! The thread on which everything is done.

use std::sync::mpsc::sync_channel;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::options::{ConnectError, NatsOptions};

/// A thread with a tokio runtime, so that the program may have any other or none. When it is dropped, all its tasks end.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    _until: oneshot::Sender<()>,
}

impl Runtime {
    pub(crate) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (until, ended) = oneshot::channel();
        let handle = runtime.handle().clone();
        let run = move || {
            // An error: the sender was dropped.
            let _ = runtime.block_on(ended);
        };
        thread::Builder::new()
            .name("antiphon-nats".into())
            .spawn(run)?;
        Ok(Self {
            handle,
            _until: until,
        })
    }

    /// Does something on the thread, and waits for it.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        options: &NatsOptions,
        act: impl Future<Output = Result<T, ConnectError>> + Send + 'static,
    ) -> Result<T, ConnectError> {
        let (sender, done) = sync_channel(1);
        self.handle.spawn(async move {
            let result = act.await;
            // Nobody waits any more.
            let _ = sender.send(result);
        });
        let patience = options.timeout * 4;
        let result = done.recv_timeout(patience);
        result.unwrap_or_else(|_| Err(options.error("no answer in time")))
    }
}

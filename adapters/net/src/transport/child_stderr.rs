//! The standard error of a child process. It is always read, so that it cannot block the child.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;

use futures_io::AsyncRead;

use antiphon_shell::{Lock, caught, yield_now};

/// How many bytes are read at once.
pub(crate) const PIECE_BYTES: usize = 8 << 10;

/// Is called with the child's standard error, in pieces of any size.
pub(crate) type OnStderr = Box<dyn FnMut(&[u8]) + Send>;

/// The last bytes that a child wrote to its standard error.
pub(crate) struct Stderr {
    kept: Lock<VecDeque<u8>>,
    max_bytes: usize,
}

impl Stderr {
    pub(crate) const fn new(max_bytes: usize) -> Self {
        Self {
            kept: Lock::new(VecDeque::new()),
            max_bytes,
        }
    }

    pub(crate) fn kept(&self) -> Vec<u8> {
        self.kept.lock().iter().copied().collect()
    }

    /// Keeps what was read, and passes it to `on_stderr`, which is not called again after it has panicked.
    pub(crate) fn add(&self, read: &[u8], on_stderr: &mut Option<OnStderr>) {
        if let Some(see) = on_stderr {
            if caught(|| see(read)).is_none() {
                *on_stderr = None;
            }
        }
        let mut kept = self.kept.lock();
        kept.extend(&read[read.len().saturating_sub(self.max_bytes)..]);
        let excess = kept.len().saturating_sub(self.max_bytes);
        kept.drain(..excess);
    }
}

/// Reads the child's standard error to its end, whatever happens to the connection. Other tasks run after
/// each piece.
pub(crate) async fn drain(
    mut stderr: Box<dyn AsyncRead + Send + Unpin>,
    kept: Arc<Stderr>,
    mut on_stderr: Option<OnStderr>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match poll_fn(|cx| Pin::new(&mut stderr).poll_read(cx, &mut piece)).await {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(n) => kept.add(&piece[..n], &mut on_stderr),
        }
        yield_now().await;
    }
}

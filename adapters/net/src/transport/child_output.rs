//! The standard output of a child process, up to its exit.
//!
//! ```text
//!   reading ──the child exits──▶ what is in the pipe is read ──▶ the exit
//!      └──the pipe ends──▶ the exit is awaited for a moment ──▶ the exit, or the end
//! ```
//!
//! The output ends with the child, even if a process that the child has started holds the pipe open
//! for ever. Everything that the child wrote before its exit is read first.

use std::future::Future;
use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_io::AsyncRead;

use crate::link::child_started::Exit;
use antiphon_shell::{SharedRuntime, child_exited, until};

/// How long after the end of its output the exit of a child is awaited, to be reported. It closes
/// its output when it exits, shortly before its status is available.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_millis(50);

/// Is ready when the child has exited, with its status if that is known.
type Exiting = Pin<Box<dyn Future<Output = Option<ExitStatus>> + Send>>;

/// The standard output of a child. After the child's exit reading fails with [`child_exited`]. On systems
/// other than Unix, which do not tell how much is in a pipe, the output ends with the pipe.
pub(crate) struct ChildOutput {
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The pipe that `stdout` reads.
    #[cfg(unix)]
    pipe: OwnedFd,
    exit: Exit,
    runtime: SharedRuntime,
    /// Waits for the exit; after the end of the pipe not for long. `None` when it has ended.
    ending: Option<Exiting>,
    /// How the child has exited. `None` if it is running.
    status: Option<ExitStatus>,
    /// At most so many bytes are still to be read: after the exit those that were in the pipe.
    left: u64,
}

impl ChildOutput {
    pub(crate) fn new(
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        #[cfg(unix)] pipe: OwnedFd,
        exit: Exit,
        runtime: SharedRuntime,
    ) -> Self {
        let ending = exit.clone();
        Self {
            stdout,
            #[cfg(unix)]
            pipe,
            exit,
            runtime,
            ending: Some(Box::pin(async move { ending.wait().await.ok() })),
            status: None,
            left: u64::MAX,
        }
    }

    /// Returns how many bytes are in the pipe.
    #[cfg(unix)]
    fn waiting(&self) -> io::Result<u64> {
        Ok(rustix::io::ioctl_fionread(&self.pipe)?)
    }

    #[cfg(not(unix))]
    fn waiting(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// Waits for the exit, but not for long.
    fn soon_ending(&self) -> Exiting {
        let (exit, runtime) = (self.exit.clone(), SharedRuntime::clone(&self.runtime));
        Box::pin(async move {
            let due = runtime.now() + EXIT_TIMEOUT;
            until(&*runtime, due, exit.wait()).await?.ok()
        })
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            if let Some(ending) = &mut this.ending {
                match ending.as_mut().poll(cx) {
                    Poll::Ready(status) => {
                        (this.ending, this.status) = (None, status);
                        this.left = this.left.min(this.waiting()?);
                    }
                    Poll::Pending if this.left == 0 => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            if this.left == 0 {
                // Without a status the child has closed its output and is still running.
                return Poll::Ready(
                    this.status
                        .map_or(Ok(0), |status| Err(child_exited(status))),
                );
            }
            let most = usize::try_from(this.left)
                .unwrap_or(usize::MAX)
                .min(buf.len());
            let n = ready!(Pin::new(&mut this.stdout).poll_read(cx, &mut buf[..most]))?;
            if n > 0 {
                this.left -= n as u64;
                return Poll::Ready(Ok(n));
            }
            // The pipe has ended.
            this.left = 0;
            if this.ending.is_some() {
                this.ending = Some(this.soon_ending());
            }
        }
    }
}

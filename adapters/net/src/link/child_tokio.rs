//! Child processes of tokio.

use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll};

use tokio::process::{Child, Command};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::child_started::{RunningProcess, StartedChild};

pub(crate) fn spawn(command: &mut Command) -> io::Result<StartedChild> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(id), (Some(stdin), Some(stdout), Some(stderr))) = (child.id(), pipes) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok(StartedChild {
        id,
        #[cfg(unix)]
        pipe: std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned()?,
        stdin: Box::new(stdin.compat_write()),
        stdout: Box::new(stdout.compat()),
        stderr: Box::new(stderr.compat()),
        process: Box::new(child),
    })
}

impl RunningProcess for Child {
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        // The waker stays in the child, so each poll may make the future anew.
        pin!(self.wait()).poll(cx)
    }

    fn kill(&mut self) -> io::Result<()> {
        self.start_kill()
    }
}

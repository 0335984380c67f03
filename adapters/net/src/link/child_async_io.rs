//! Child processes of async-io, by the crate async-process.

use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::task::{Context, Poll};

use async_process::{Child, Command};

use super::child_started::{RunningProcess, StartedChild};

pub(crate) fn spawn(command: &mut Command) -> io::Result<StartedChild> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok(StartedChild {
        id: child.id(),
        #[cfg(unix)]
        pipe: std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned()?,
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        process: Box::new(RunningChild {
            exit: Box::pin(child.status()),
            child,
        }),
    })
}

struct RunningChild {
    exit: Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send>>,
    child: Child,
}

impl RunningProcess for RunningChild {
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        self.exit.as_mut().poll(cx)
    }

    fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }
}

//! Standard streams without the standard library's output buffer, and in both blocking and
//! non-blocking mode.
//!
//! A standard stream is shared with the process that started this one, and so is its non-blocking
//! mode: an editor may have set it for its own end. Then reads and writes may return "would block".
//! Those of this module wait and try again, and do not change the mode.

use std::fmt;
#[cfg(any(unix, windows))]
use std::fs::File;
use std::io::{self, Read, Write};

use super::would_block::Whole;

/// Standard input, and whether its end was read.
#[derive(Debug)]
struct Stdin {
    input: io::Stdin,
    is_over: bool,
}

/// This process's standard input, to be read from in one place at a time. A read waits until there are
/// bytes, in non-blocking mode too. The end is final, although a terminal could be read again.
pub fn stdin() -> impl Read + Send + fmt::Debug {
    Stdin {
        input: io::stdin(),
        is_over: false,
    }
}

/// This process's standard output as a plain file, because the standard library's own handle
/// buffers by lines, and ignores a closed descriptor. A write waits until all bytes are written, in
/// non-blocking mode too.
///
/// # Errors
/// Standard output is closed.
pub fn stdout_unbuffered() -> io::Result<impl Write + Send + fmt::Debug> {
    let output = io::stdout();
    #[cfg(unix)]
    let output = File::from(std::os::fd::AsFd::as_fd(&output).try_clone_to_owned()?);
    #[cfg(windows)]
    let output =
        File::from(std::os::windows::io::AsHandle::as_handle(&output).try_clone_to_owned()?);
    Ok(Whole(output))
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !self.is_over && !buf.is_empty() {
            match self.input.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(&self.input)?,
                Ok(0) => self.is_over = true,
                read => return read,
            }
        }
        Ok(0)
    }
}

/// Blocks the thread until there is something to read, or an error.
#[cfg(unix)]
fn wait_for(input: &io::Stdin) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(input, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    Ok(())
}

/// Systems other than Unix have no way to wait for input here, so the read is tried again 5 ms later.
#[cfg(not(unix))]
fn wait_for(_: &io::Stdin) -> io::Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(5));
    Ok(())
}

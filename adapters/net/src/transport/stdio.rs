//! Standard streams without the standard library's buffer for output, and in whatever mode another
//! process has put them.
//!
//! A standard stream is shared with the process that started this one, and so is its non-blocking
//! mode: an editor may have set it for its own end. There, "would block" means later. [`Stdin`] and
//! [`Stdout`] wait with `poll` for that time and leave the mode as it is.

use std::io::{self, Read, Write};

#[cfg(unix)]
type Output = std::fs::File;
#[cfg(windows)]
type Output = std::fs::File;
#[cfg(not(any(unix, windows)))]
type Output = io::Stdout;

/// This process's standard input. A read waits until there is something, in non-blocking mode too.
#[derive(Debug)]
pub struct Stdin(io::Stdin);

/// This process's standard output as the file that it is: the standard library's own handle buffers
/// by lines, and takes a closed descriptor for a sink. A write waits until there is room, in
/// non-blocking mode too.
#[derive(Debug)]
pub struct Stdout(Output);

/// Standard input, to be read from in one place at a time.
pub fn stdin() -> Stdin {
    Stdin(io::stdin())
}

/// Standard output without a buffer.
///
/// # Errors
/// Standard output is closed.
pub fn stdout_unbuffered() -> io::Result<Stdout> {
    #[cfg(unix)]
    let output = {
        use std::os::fd::AsFd;
        io::stdout().as_fd().try_clone_to_owned()?.into()
    };
    #[cfg(windows)]
    let output = {
        use std::os::windows::io::AsHandle;
        io::stdout().as_handle().try_clone_to_owned()?.into()
    };
    #[cfg(not(any(unix, windows)))]
    let output = io::stdout();
    Ok(Stdout(output))
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, Direction::In)?;
                }
                read => return read,
            }
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, Direction::Out)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.0.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, Direction::Out)?;
                }
                flushed => return flushed,
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

/// Lets the thread wait until there is something to read, or room to write, or an error to find.
#[cfg(unix)]
fn wait_for(stream: &impl std::os::fd::AsFd, direction: Direction) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let wanted = match direction {
        Direction::In => PollFlags::IN,
        Direction::Out => PollFlags::OUT,
    };
    match poll(&mut [PollFd::new(stream, wanted)], None) {
        // It looks again.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// There is nothing to wait with here: it looks again a moment later.
#[cfg(not(unix))]
fn wait_for<T>(_: &T, direction: Direction) -> io::Result<()> {
    let (Direction::In | Direction::Out) = direction;
    std::thread::sleep(std::time::Duration::from_millis(5));
    Ok(())
}

//! Standard output without the standard library's buffer.

use std::io;

/// Standard output as the file that it is: the standard library's own handle buffers by lines,
/// and takes a closed descriptor for a sink.
#[cfg(unix)]
///
/// # Errors
/// Standard output is closed.
pub fn stdout_unbuffered() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
/// See above: unbuffered standard output.
///
/// # Errors
/// Standard output is closed.
pub fn stdout_unbuffered() -> io::Result<std::fs::File> {
    use std::os::windows::io::AsHandle;
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

#[cfg(not(any(unix, windows)))]
/// See above: unbuffered standard output.
///
/// # Errors
/// Standard output is closed.
pub fn stdout_unbuffered() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

//! Listens on the path of a Unix socket.
//!
//! Listening removes neither a socket on which a server answers nor another kind of file. A path that
//! was created here is removed again, unless something else is there by then.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::link::Link;
use crate::runtime::current;

impl Link {
    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens at `path`.
    pub async fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        current()
            .sockets()
            .connect_unix(path.as_ref().to_path_buf())
            .await
    }
}

/// A path to a socket. When this is dropped, the path is removed, if the socket is still there.
#[derive(Debug)]
pub(crate) struct UnixPath {
    path: PathBuf,
    /// The device and the inode of the socket. While the listener is open, no other file can have both.
    file: Option<(u64, u64)>,
}

impl UnixPath {
    fn new(path: PathBuf) -> Self {
        let file = file_at(&path);
        Self { path, file }
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        // A newer server may have replaced the socket.
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and the inode of the file at `path`, if there is one.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Listens at `path`. A socket there on which no server answers was left by a server that was
/// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
/// replaced.
///
/// # Errors
/// The path is taken or cannot be created; the error's text has the path.
pub(crate) fn bind_unix(path: PathBuf) -> io::Result<(UnixListener, UnixPath)> {
    let listener = listen(&path).map_err(|error| {
        let path = path.display();
        io::Error::new(error.kind(), format!("cannot listen on {path}: {error}"))
    })?;
    Ok((listener, UnixPath::new(path)))
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let error = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        bound => return bound,
    };
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    let answer = UnixStream::connect(path).map_err(|error| error.kind());
    if !is_socket || !matches!(answer, Err(io::ErrorKind::ConnectionRefused)) {
        return Err(error);
    }
    std::fs::remove_file(path)?;
    UnixListener::bind(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::bind_unix;

    fn free_path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("antiphon-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn the_socket_of_a_newer_server_was_removed() {
        let path = free_path("newer");
        let (_old_listener, old) = bind_unix(path.clone()).unwrap();
        fs::remove_file(&path).unwrap();
        let (_new_listener, new) = bind_unix(path.clone()).unwrap();
        drop(old);
        assert!(path.exists(), "the newer server has lost its socket");
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_gone_does_no_harm() {
        let path = free_path("gone");
        let (_listener, held) = bind_unix(path.clone()).unwrap();
        fs::remove_file(&path).unwrap();
        drop(held);
        assert!(!path.exists());
    }
}

//! Listens on the path of a Unix socket.
//!
//! Listening removes neither a socket on which a server answers nor another kind of file. A path that
//! was created here is removed again, whatever is there then.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A path to a socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct UnixPath(PathBuf);

impl UnixPath {
    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        // The path may have been removed before, which does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens at `path`. A socket there on which no server answers was left by a server that was
/// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
/// replaced.
///
/// # Errors
/// The path is taken or cannot be created; the error's text has the path.
pub fn bind_unix(path: PathBuf) -> io::Result<(UnixListener, UnixPath)> {
    let listener = listen(&path).map_err(|error| {
        let path = path.display();
        io::Error::new(error.kind(), format!("cannot listen on {path}: {error}"))
    })?;
    Ok((listener, UnixPath(path)))
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

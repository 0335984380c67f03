//! tokio's streams, converted to the `futures-io` traits.

use std::io;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::Link;
use super::futures::FuturesIo;
use super::socket::{TcpSocket, has_input, prepare};

impl Link {
    /// Makes a link of any stream with tokio's traits.
    pub fn from_tokio(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::from_futures(stream.compat())
    }

    /// Makes a link of a reader and a writer with tokio's traits.
    pub fn from_tokio_pair(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::from_futures_pair(reader.compat(), writer.compat_write())
    }
}

impl TcpSocket for TcpStream {
    fn into_link(self) -> io::Result<Link> {
        prepare(&SockRef::from(&self))?;
        Ok(of_tcp(self))
    }
}

/// Makes a link of a stream whose options are set.
pub(crate) fn of_tcp(stream: TcpStream) -> Link {
    let (peer, local) = (stream.peer_addr(), stream.local_addr());
    let io = FuturesIo::asking(stream.compat(), |stream| has_input(stream.get_ref().into()));
    Link::new(io).with_addresses(peer, local)
}

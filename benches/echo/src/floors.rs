//! The bare transports, over streams: the bytes of the same requests, as many in a write, come back as they are; and
//! either side of that alone, where the other is ours.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use async_io::Async;

use crate::row::{self, Lane, Mode, Outcome, Row, lines};
use crate::runtime::Runtime;
use crate::side::{Far, Lines, reply_lines, same};

pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// How much a pipe in memory holds.
pub(crate) const DUPLEX_BYTES: usize = 64 * 1024;

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    let mut add =
        |name, make: fn() -> Outcome<Box<dyn Lane>>| row::add(rows, wanted, name, name, make);
    add("bare blocking TCP", || {
        let address = blocking::listen(|far| blocking::far(far, Far::Echo))?;
        Ok(blocking::near(blocking::connect(address)?, Far::Echo))
    })?;
    add("bare blocking Unix", || {
        let (near, far) = UnixStream::pair()?;
        thread::Builder::new().spawn(|| blocking::far(far, Far::Echo))?;
        Ok(blocking::near(near, Far::Echo))
    })?;
    add("bare tokio TCP", || {
        let runtime = Runtime::tokio()?;
        let address = on_tokio::listen(&runtime, |far| on_tokio::far(far, Far::Echo))?;
        let near = on_tokio::connect(&runtime, address)?;
        Ok(on_tokio::near(runtime, near, Far::Echo))
    })?;
    add("bare tokio Unix", || {
        let runtime = Runtime::tokio()?;
        let (near, far) = runtime.block_on(async { tokio::net::UnixStream::pair() })?;
        runtime.spawn(on_tokio::far(far, Far::Echo));
        Ok(on_tokio::near(runtime, near, Far::Echo))
    })?;
    add("bare tokio duplex", || {
        let (runtime, (near, far)) = (Runtime::tokio()?, tokio::io::duplex(DUPLEX_BYTES));
        runtime.spawn(on_tokio::far(far, Far::Echo));
        Ok(on_tokio::near(runtime, near, Far::Echo))
    })?;
    add("bare smol TCP", || {
        let runtime = Runtime::smol();
        let address = on_smol::listen(&runtime, |far| on_smol::far(far, Far::Echo))?;
        let near = on_smol::connect(&runtime, address)?;
        Ok(on_smol::near(runtime, near, Far::Echo))
    })?;
    add("bare smol Unix", || {
        let (near, far) = UnixStream::pair()?;
        let (runtime, far) = (Runtime::smol(), Async::new(far)?);
        runtime.spawn(on_smol::far(far, Far::Echo));
        Ok(on_smol::near(runtime, Async::new(near)?, Far::Echo))
    })
}

/// Threads and the standard library's sockets.
pub(crate) mod blocking {
    use super::{
        BUFFER_BYTES, Duration, Far, Instant, Lane, Lines, Mode, Outcome, Read, SocketAddr,
        TcpListener, TcpStream, Write, lines, reply_lines, same, thread,
    };

    struct Near<S> {
        near: S,
        far: Far,
    }

    pub(crate) fn near<S: Read + Write + 'static>(near: S, far: Far) -> Box<dyn Lane> {
        Box::new(Near { near, far })
    }

    pub(crate) fn connect(address: SocketAddr) -> Outcome<TcpStream> {
        let near = TcpStream::connect(address)?;
        near.set_nodelay(true)?;
        Ok(near)
    }

    /// Opens a port, and gives its first connection to `serve`.
    pub(crate) fn listen(serve: impl FnOnce(TcpStream) + Send + 'static) -> Outcome<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::Builder::new().spawn(move || {
            if let Ok((far, _)) = listener.accept()
                && far.set_nodelay(true).is_ok()
            {
                serve(far);
            }
        })?;
        Ok(address)
    }

    pub(crate) fn far<S: Read + Write>(mut stream: S, far: Far) {
        let (mut buf, mut lines) = (vec![0; BUFFER_BYTES], Lines::new(far));
        while let Ok(n @ 1..) = stream.read(&mut buf) {
            if stream.write_all(lines.reply(&buf[..n])).is_err() {
                return;
            }
        }
    }

    impl<S: Read + Write> Lane for Near<S> {
        fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
            let (sent, wanted) = (lines(mode), reply_lines(self.far, mode));
            let mut buf = vec![0; BUFFER_BYTES];
            for _ in 0..rounds {
                let began = Instant::now();
                self.near.write_all(&sent)?;
                let mut back = 0;
                while back < wanted.len() {
                    match self.near.read(&mut buf[back..])? {
                        0 => return Err("the echo ended".into()),
                        n => back += n,
                    }
                }
                same(self.far, &wanted, &buf[..back])?;
                times.push(began.elapsed());
            }
            Ok(())
        }
    }
}

/// Defines the same functions for the streams of two runtimes.
macro_rules! streams {
    ($stream:ty, $connect:path) => {
        struct Near<S> {
            runtime: Runtime,
            near: S,
            far: Far,
        }

        pub(crate) fn near<S>(runtime: Runtime, near: S, far: Far) -> Box<dyn Lane>
        where
            S: AsyncRead + AsyncWrite + Unpin + 'static,
        {
            Box::new(Near { runtime, near, far })
        }

        pub(crate) fn connect(runtime: &Runtime, address: SocketAddr) -> Outcome<$stream> {
            let near = runtime.block_on($connect(address))?;
            nodelay(&near)?;
            Ok(near)
        }

        /// Opens a port, and gives its first connection to `serve`.
        pub(crate) fn listen<F: Future<Output = ()> + Send>(
            runtime: &Runtime,
            serve: impl FnOnce($stream) -> F + Send + 'static,
        ) -> Outcome<SocketAddr> {
            let listener = runtime.block_on(bind())?;
            let address = local_addr(&listener)?;
            runtime.spawn(async move {
                if let Ok((far, _)) = listener.accept().await
                    && nodelay(&far).is_ok()
                {
                    serve(far).await;
                }
            });
            Ok(address)
        }

        pub(crate) async fn far<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, far: Far) {
            let (mut buf, mut lines) = (vec![0; BUFFER_BYTES], Lines::new(far));
            while let Ok(n @ 1..) = stream.read(&mut buf).await {
                if stream.write_all(lines.reply(&buf[..n])).await.is_err() {
                    return;
                }
            }
        }

        impl<S: AsyncRead + AsyncWrite + Unpin> Lane for Near<S> {
            fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
                let (sent, wanted) = (lines(mode), reply_lines(self.far, mode));
                let mut buf = vec![0; BUFFER_BYTES];
                let (near, far) = (&mut self.near, self.far);
                self.runtime.block_on(async {
                    for _ in 0..rounds {
                        let began = Instant::now();
                        near.write_all(&sent).await?;
                        let mut back = 0;
                        while back < wanted.len() {
                            match near.read(&mut buf[back..]).await? {
                                0 => return Err("the echo ended".into()),
                                n => back += n,
                            }
                        }
                        same(far, &wanted, &buf[..back])?;
                        times.push(began.elapsed());
                    }
                    Ok(())
                })
            }
        }
    };
}

pub(crate) mod on_tokio {
    use super::{
        BUFFER_BYTES, Duration, Far, Instant, Lane, Lines, Mode, Outcome, Runtime, SocketAddr,
        lines, reply_lines, same,
    };
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    streams!(TcpStream, TcpStream::connect);

    async fn bind() -> std::io::Result<TcpListener> {
        TcpListener::bind("127.0.0.1:0").await
    }

    fn local_addr(listener: &TcpListener) -> std::io::Result<SocketAddr> {
        listener.local_addr()
    }

    fn nodelay(stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)
    }
}

pub(crate) mod on_smol {
    use super::{
        Async, BUFFER_BYTES, Duration, Far, Instant, Lane, Lines, Mode, Outcome, Runtime,
        SocketAddr, TcpListener, TcpStream, lines, reply_lines, same,
    };
    use futures_util::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

    streams!(Async<TcpStream>, Async::<TcpStream>::connect);

    async fn bind() -> std::io::Result<Async<TcpListener>> {
        Async::<TcpListener>::bind(([127, 0, 0, 1], 0))
    }

    fn local_addr(listener: &Async<TcpListener>) -> std::io::Result<SocketAddr> {
        listener.get_ref().local_addr()
    }

    fn nodelay(stream: &Async<TcpStream>) -> std::io::Result<()> {
        stream.get_ref().set_nodelay(true)
    }
}

//! The transports alone: the bytes of the same requests, as many in a write, come back as they
//! are.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use async_io::Async;
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use tungstenite::{Error, Message, WebSocket};

use crate::row::{self, Lane, Mode, Outcome, Row, lines, requests};
use crate::runtime::Runtime;

const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &str) -> Outcome<()> {
    let mut add =
        |name, make: fn() -> Outcome<Box<dyn Lane>>| row::add(rows, wanted, name, name, make);
    add("bare blocking TCP", || blocking(tcp_pair()?))?;
    add("bare blocking Unix", || blocking(UnixStream::pair()?))?;
    add("bare blocking WebSocket", blocking_ws)?;
    add("bare tokio TCP", || {
        let runtime = Runtime::tokio()?;
        let pair = runtime.block_on(tokio_tcp_pair())?;
        Ok(tokio_bytes(runtime, pair))
    })?;
    add("bare tokio Unix", || {
        let runtime = Runtime::tokio()?;
        let pair = runtime.block_on(async { tokio::net::UnixStream::pair() })?;
        Ok(tokio_bytes(runtime, pair))
    })?;
    add("bare tokio WebSocket", tokio_ws)?;
    add("bare smol TCP", || {
        let (near, far) = tcp_pair()?;
        smol_bytes(Async::new(near)?, Async::new(far)?)
    })?;
    add("bare smol Unix", || {
        let (near, far) = UnixStream::pair()?;
        smol_bytes(Async::new(near)?, Async::new(far)?)
    })?;
    add("bare smol WebSocket", smol_ws)
}

fn tcp_pair() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

async fn tokio_tcp_pair() -> Outcome<(tokio::net::TcpStream, tokio::net::TcpStream)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let near = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
    let (far, _) = listener.accept().await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// What came back is what was sent.
fn same(sent: &[u8], back: &[u8]) -> Outcome<()> {
    if sent == back {
        return Ok(());
    }
    Err("other bytes came back".into())
}

struct Blocking<S> {
    near: S,
}

fn blocking<S: Read + Write + Send + 'static>((near, mut far): (S, S)) -> Outcome<Box<dyn Lane>> {
    thread::Builder::new().spawn(move || {
        let mut buf = vec![0; BUFFER_BYTES];
        while let Ok(n @ 1..) = far.read(&mut buf) {
            if far.write_all(&buf[..n]).is_err() {
                return;
            }
        }
    })?;
    Ok(Box::new(Blocking { near }))
}

impl<S: Read + Write> Lane for Blocking<S> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let sent = lines(mode);
        let mut buf = vec![0; BUFFER_BYTES];
        for _ in 0..rounds {
            let began = Instant::now();
            self.near.write_all(&sent)?;
            let mut back = 0;
            while back < sent.len() {
                match self.near.read(&mut buf[back..])? {
                    0 => return Err("the echo ended".into()),
                    n => back += n,
                }
            }
            same(&sent, &buf[..back])?;
            times.push(began.elapsed());
        }
        Ok(())
    }
}

/// The same words for the streams of two runtimes.
macro_rules! bytes {
    ($name:ident, $far:ident, $read:path, $write:path) => {
        struct $name<S> {
            runtime: Runtime,
            near: S,
        }

        async fn $far<S: $read + $write + Unpin>(mut far: S) {
            let mut buf = vec![0; BUFFER_BYTES];
            while let Ok(n @ 1..) = far.read(&mut buf).await {
                if far.write_all(&buf[..n]).await.is_err() {
                    return;
                }
            }
        }

        impl<S: $read + $write + Unpin> Lane for $name<S> {
            fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
                let sent = lines(mode);
                let mut buf = vec![0; BUFFER_BYTES];
                let near = &mut self.near;
                self.runtime.block_on(async {
                    for _ in 0..rounds {
                        let began = Instant::now();
                        near.write_all(&sent).await?;
                        let mut back = 0;
                        while back < sent.len() {
                            match near.read(&mut buf[back..]).await? {
                                0 => return Err("the echo ended".into()),
                                n => back += n,
                            }
                        }
                        same(&sent, &buf[..back])?;
                        times.push(began.elapsed());
                    }
                    Ok(())
                })
            }
        }
    };
}

mod on_tokio {
    use super::{BUFFER_BYTES, Duration, Instant, Lane, Mode, Outcome, Runtime, lines, same};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

    bytes!(Bytes, far, AsyncRead, AsyncWrite);

    pub(super) fn start<S>(runtime: Runtime, (near, other): (S, S)) -> Box<dyn Lane>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        runtime.spawn(far(other));
        Box::new(Bytes { runtime, near })
    }
}

mod on_smol {
    use super::{BUFFER_BYTES, Duration, Instant, Lane, Mode, Outcome, Runtime, lines, same};
    use futures_util::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

    bytes!(Bytes, far, AsyncRead, AsyncWrite);

    pub(super) fn start<S>(near: S, other: S) -> Box<dyn Lane>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = Runtime::smol();
        runtime.spawn(far(other));
        Box::new(Bytes { runtime, near })
    }
}

fn tokio_bytes<S>(runtime: Runtime, pair: (S, S)) -> Box<dyn Lane>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    on_tokio::start(runtime, pair)
}

fn smol_bytes<S>(near: S, far: S) -> Outcome<Box<dyn Lane>>
where
    S: futures_util::AsyncRead + futures_util::AsyncWrite + Unpin + Send + 'static,
{
    Ok(on_smol::start(near, far))
}

/// The messages of one round.
fn messages(mode: Mode) -> Vec<Message> {
    requests(mode).into_iter().map(Message::text).collect()
}

struct BlockingWs {
    near: WebSocket<TcpStream>,
}

fn blocking_ws() -> Outcome<Box<dyn Lane>> {
    let (near, far) = tcp_pair()?;
    thread::Builder::new().spawn(move || {
        // A message at a time: reading ahead would block.
        let Ok(mut far) = tungstenite::accept(far) else {
            return;
        };
        while let Ok(message) = far.read() {
            if far.send(message).is_err() {
                return;
            }
        }
    })?;
    let (near, _) = tungstenite::client("ws://localhost/", near)?;
    Ok(Box::new(BlockingWs { near }))
}

impl Lane for BlockingWs {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let sent = messages(mode);
        for _ in 0..rounds {
            let began = Instant::now();
            for message in &sent {
                self.near.write(message.clone())?;
            }
            self.near.flush()?;
            for message in &sent {
                same(&message.clone().into_data(), &self.near.read()?.into_data())?;
            }
            times.push(began.elapsed());
        }
        Ok(())
    }
}

struct Ws<S> {
    runtime: Runtime,
    near: S,
}

/// Echoes all that is there before it flushes.
async fn echo_messages<S>(mut far: S)
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    while let Some(Ok(message)) = far.next().await {
        let mut next = Some(message);
        while let Some(message) = next {
            if far.feed(message).await.is_err() {
                return;
            }
            next = far.next().now_or_never().flatten().and_then(Result::ok);
        }
        if far.flush().await.is_err() {
            return;
        }
    }
}

fn tokio_ws() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (near, far) = runtime.block_on(tokio_tcp_pair())?;
    runtime.spawn(async {
        if let Ok(far) = tokio_tungstenite::accept_async(far).await {
            echo_messages(far).await;
        }
    });
    let (near, _) = runtime.block_on(tokio_tungstenite::client_async("ws://localhost/", near))?;
    Ok(Box::new(Ws { runtime, near }))
}

fn smol_ws() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::smol();
    let (near, far) = tcp_pair()?;
    let (near, far) = (Async::new(near)?, Async::new(far)?);
    runtime.spawn(async {
        if let Ok(far) = async_tungstenite::accept_async(far).await {
            echo_messages(far).await;
        }
    });
    let (near, _) = runtime.block_on(async_tungstenite::client_async("ws://localhost/", near))?;
    Ok(Box::new(Ws { runtime, near }))
}

impl<S> Lane for Ws<S>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let sent = messages(mode);
        let near = &mut self.near;
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                for message in &sent {
                    near.feed(message.clone()).await?;
                }
                near.flush().await?;
                for message in &sent {
                    let back = near.next().await.ok_or("the echo ended")??;
                    same(&message.clone().into_data(), &back.into_data())?;
                }
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

//! Bare WebSockets: tungstenite on both sides, or on one of them where the other is ours.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use async_io::Async;
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use nix::sys::socket::{MsgFlags, recv};
use tungstenite::client::client_with_config;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::floors::{self, on_smol, on_tokio};
use crate::row::{self, Lane, Mode, Outcome, Row, requests};
use crate::runtime::Runtime;
use crate::side::{Far, answer, replies, same};

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    let mut add =
        |name, make: fn() -> Outcome<Box<dyn Lane>>| row::add(rows, wanted, name, name, make);
    add("bare blocking WebSocket", || {
        blocking_near(blocking_listen(Far::Echo)?, Far::Echo)
    })?;
    add("bare tokio WebSocket", || {
        let runtime = Runtime::tokio()?;
        let address = tokio_listen(&runtime, Far::Echo)?;
        tokio_near(runtime, address, Far::Echo)
    })?;
    add("bare smol WebSocket", || {
        let runtime = Runtime::smol();
        let address = smol_listen(&runtime, Far::Echo)?;
        smol_near(runtime, address, Far::Echo)
    })
}

/// The room for what is read. tungstenite zeroes it before each read, which with the 128 KiB of its default takes nearly as
/// long as an echo over TCP; this is enough for what comes in a round.
const READ_BYTES: usize = 16 * 1024;

fn rules() -> Option<WebSocketConfig> {
    Some(WebSocketConfig::default().read_buffer_size(READ_BYTES))
}

/// What a far side answers to a message.
fn reply(far: Far, message: Message) -> Message {
    match far {
        Far::Echo => message,
        Far::Answers => {
            let mut out = Vec::new();
            answer(&message.into_data(), &mut out);
            Message::text(String::from_utf8(out).unwrap_or_default())
        }
    }
}

/// The messages of one round, and what is to come back.
fn messages(far: Far, mode: Mode) -> (Vec<Message>, Vec<String>) {
    let sent = requests(mode).into_iter().map(Message::text).collect();
    (sent, replies(far, mode))
}

/// A socket that can be read without waiting, too.
struct Socket {
    stream: TcpStream,
    waits: bool,
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.waits {
            return self.stream.read(buf);
        }
        let now = recv(self.stream.as_raw_fd(), buf, MsgFlags::MSG_DONTWAIT);
        now.map_err(io::Error::from)
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(crate) fn blocking_listen(far: Far) -> Outcome<SocketAddr> {
    floors::blocking::listen(move |stream| {
        let waits = true;
        let Ok(mut socket) = tungstenite::accept_with_config(Socket { stream, waits }, rules())
        else {
            return;
        };
        // Answers all that is there before it flushes.
        while let Ok(message) = socket.read() {
            let mut next = Some(message);
            socket.get_mut().waits = false;
            while let Some(message) = next {
                if socket.write(reply(far, message)).is_err() {
                    return;
                }
                next = socket.read().ok();
            }
            socket.get_mut().waits = true;
            if socket.flush().is_err() {
                return;
            }
        }
    })
}

struct Blocking {
    near: WebSocket<TcpStream>,
    far: Far,
}

pub(crate) fn blocking_near(address: SocketAddr, far: Far) -> Outcome<Box<dyn Lane>> {
    let stream = floors::blocking::connect(address)?;
    let (near, _) = client_with_config(format!("ws://{address}/"), stream, rules())?;
    Ok(Box::new(Blocking { near, far }))
}

impl Lane for Blocking {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let (sent, wanted) = messages(self.far, mode);
        for _ in 0..rounds {
            let began = Instant::now();
            for message in &sent {
                self.near.write(message.clone())?;
            }
            self.near.flush()?;
            for wanted in &wanted {
                let back = self.near.read()?.into_data();
                same(self.far, wanted.as_bytes(), &back)?;
            }
            times.push(began.elapsed());
        }
        Ok(())
    }
}

/// Answers all that is there before it flushes.
async fn serve<S>(mut socket: S, far: Far)
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    while let Some(Ok(message)) = socket.next().await {
        let mut next = Some(message);
        while let Some(message) = next {
            if socket.feed(reply(far, message)).await.is_err() {
                return;
            }
            next = socket.next().now_or_never().flatten().and_then(Result::ok);
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

pub(crate) fn tokio_listen(runtime: &Runtime, far: Far) -> Outcome<SocketAddr> {
    on_tokio::listen(runtime, move |stream| async move {
        if let Ok(socket) = tokio_tungstenite::accept_async_with_config(stream, rules()).await {
            serve(socket, far).await;
        }
    })
}

pub(crate) fn smol_listen(runtime: &Runtime, far: Far) -> Outcome<SocketAddr> {
    on_smol::listen(runtime, move |stream: Async<TcpStream>| async move {
        if let Ok(socket) = async_tungstenite::accept_async_with_config(stream, rules()).await {
            serve(socket, far).await;
        }
    })
}

struct Near<S> {
    runtime: Runtime,
    near: S,
    far: Far,
}

pub(crate) fn tokio_near(
    runtime: Runtime,
    address: SocketAddr,
    far: Far,
) -> Outcome<Box<dyn Lane>> {
    let stream = on_tokio::connect(&runtime, address)?;
    let url = format!("ws://{address}/");
    let (near, _) = runtime.block_on(tokio_tungstenite::client_async_with_config(
        url,
        stream,
        rules(),
    ))?;
    Ok(Box::new(Near { runtime, near, far }))
}

pub(crate) fn smol_near(runtime: Runtime, address: SocketAddr, far: Far) -> Outcome<Box<dyn Lane>> {
    let stream = on_smol::connect(&runtime, address)?;
    let url = format!("ws://{address}/");
    let (near, _) = runtime.block_on(async_tungstenite::client_async_with_config(
        url,
        stream,
        rules(),
    ))?;
    Ok(Box::new(Near { runtime, near, far }))
}

impl<S> Lane for Near<S>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let (sent, wanted) = messages(self.far, mode);
        let (near, far) = (&mut self.near, self.far);
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                for message in &sent {
                    near.feed(message.clone()).await?;
                }
                near.flush().await?;
                for wanted in &wanted {
                    let back = near.next().await.ok_or("the echo ended")??;
                    same(far, wanted.as_bytes(), &back.into_data())?;
                }
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

//! The transports of every adapter with an echo of bytes instead of the core: all bytes come back
//! unchanged, and an end is reported as an end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use antiphon_net::{Ending, Io, Link, Protocol, SharedRuntime, Task, duplex};
use antiphon_stress::{LONG, Rt, echo, echo_on_threads, on_every_runtime};

on_every_runtime! {
    tcp_moves_any_bytes;
    unix_moves_any_bytes;
    memory_moves_any_bytes;
    threads_move_any_bytes;
    a_reset_is_told;
}

/// Pseudo-random bytes, many times as many as one read or write moves.
fn any_bytes() -> Vec<u8> {
    let mut seed = 0x1234_5678_u32;
    (0..700_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .collect()
}

/// Sends [`any_bytes`] to an echo, then calls `end`, and checks that the same bytes come back.
fn talk(
    mut stream: impl Read,
    mut writer: impl Write + Send + 'static,
    end: impl FnOnce() + Send + 'static,
) {
    let bytes = any_bytes();
    let sent = bytes.clone();
    let writing = thread::spawn(move || {
        for piece in sent.chunks(10_007) {
            writer.write_all(piece).unwrap();
        }
        end();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    writing.join().unwrap();
    assert!(
        back == bytes,
        "{} of {} bytes came back",
        back.len(),
        bytes.len()
    );
}

fn talk_tcp(address: std::net::SocketAddr) {
    let stream = TcpStream::connect(address).unwrap();
    let (writer, control) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    talk(stream, writer, move || {
        control.shutdown(Shutdown::Write).unwrap()
    });
}

#[cfg(unix)]
fn talk_unix(path: &std::path::Path) {
    let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    let (writer, control) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    talk(stream, writer, move || {
        control.shutdown(Shutdown::Write).unwrap()
    });
}

/// Echoes the bytes of each connection.
struct Echoes;

impl Protocol for Echoes {
    fn serve(&self, link: Link, _: Ending, _: &SharedRuntime) -> Task {
        Box::pin(async { echo(link.io).await.unwrap() })
    }
}

/// Runs blocking code on a thread of its own and waits for it without blocking the runtime.
async fn beside(runtime: &SharedRuntime, work: impl FnOnce() + Send + 'static) {
    let working = thread::spawn(work);
    while !working.is_finished() {
        let soon = runtime.now() + std::time::Duration::from_millis(1);
        runtime.sleep_until(soon).await;
    }
    working.join().unwrap();
}

/// Starts a server on the runtime of the test: the server, and its address.
async fn serve(protocol: impl Protocol) -> (antiphon_net::Running, std::net::SocketAddr) {
    let server = antiphon_net::TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    (server.start_protocol(protocol), address)
}

// ARC-15 TRN-01
fn tcp_moves_any_bytes(rt: Rt) {
    rt.run(|runtime| async move {
        let (running, address) = serve(Echoes).await;
        beside(&runtime, move || talk_tcp(address)).await;
        running.stop();
    });
}

#[cfg(unix)]
fn socket_path(name: &str) -> std::path::PathBuf {
    let file = format!("antiphon-{}-{name}.sock", std::process::id());
    std::env::temp_dir().join(file)
}

// ARC-15 TRN-01
#[cfg(unix)]
fn unix_moves_any_bytes(rt: Rt) {
    rt.run(|runtime| async move {
        let path = socket_path(&format!("{rt:?}"));
        let running = match rt {
            Rt::Tokio | Rt::TokioLocal => antiphon_tokio::UnixServer::bind(&path)
                .unwrap()
                .start_protocol(Echoes),
            Rt::Smol | Rt::AsyncStd => antiphon_async_std::UnixServer::bind(&path)
                .unwrap()
                .start_protocol(Echoes),
        };
        let there = path.clone();
        beside(&runtime, move || talk_unix(&there)).await;
        running.shutdown(antiphon_stress::LONG).await;
        assert!(!path.exists(), "the socket's path is removed");
    });
}

/// Does with an [`Io`], on a task, what [`talk`] does on threads.
async fn talk_io(mut io: Box<dyn Io>) -> Vec<u8> {
    let bytes = any_bytes();
    let (mut written, mut back) = (0, Vec::new());
    let mut is_closed = false;
    let mut buf = vec![0; 4096];
    std::future::poll_fn(|cx| {
        loop {
            let mut progress = false;
            if written < bytes.len() {
                if let std::task::Poll::Ready(n) = io.poll_write(cx, &bytes[written..]) {
                    written += n.unwrap();
                    progress = true;
                }
            } else if !is_closed {
                is_closed = io.poll_flush(cx).is_ready() && io.poll_close(cx).is_ready();
                progress = is_closed;
            }
            if let std::task::Poll::Ready(n) = io.poll_read(cx, &mut buf) {
                let n = n.unwrap();
                if n == 0 {
                    return std::task::Poll::Ready(());
                }
                back.extend_from_slice(&buf[..n]);
                progress = true;
            }
            if !progress {
                return std::task::Poll::Pending;
            }
        }
    })
    .await;
    assert!(
        back == bytes,
        "{} of {} bytes came back",
        back.len(),
        bytes.len()
    );
    back
}

// TRN-03
fn memory_moves_any_bytes(rt: Rt) {
    rt.run(|runtime| async move {
        let (near, far) = duplex(1000);
        let (done, is_done) = std::sync::mpsc::channel();
        runtime.spawn(Box::pin(async move { done.send(echo(far).await).unwrap() }));
        talk_io(near).await;
        loop {
            if let Ok(ended) = is_done.try_recv() {
                return ended.unwrap();
            }
            let soon = runtime.now() + std::time::Duration::from_millis(1);
            runtime.sleep_until(soon).await;
        }
    });
}

// STD-10
fn threads_move_any_bytes(rt: Rt) {
    rt.run(|runtime| async move {
        // What standard streams are to a task: a blocking reader and a blocking writer.
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (reader, control) = (far.try_clone().unwrap(), far.try_clone().unwrap());
        let link = Link::from_blocking(reader, HalfClose(far, control));
        runtime.spawn(Box::pin(async { echo(link.io).await.unwrap() }));
        beside(&runtime, move || {
            let (writer, control) = (near.try_clone().unwrap(), near.try_clone().unwrap());
            talk(near, writer, move || {
                control.shutdown(Shutdown::Write).unwrap()
            });
        })
        .await;
    });
}

/// Ends the stream when it is dropped, as a pipe does.
struct HalfClose(
    std::os::unix::net::UnixStream,
    std::os::unix::net::UnixStream,
);

impl Write for HalfClose {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for HalfClose {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.1.shutdown(Shutdown::Write);
    }
}

/// Sends how its echo ended.
struct Ends(mpsc::Sender<io::Result<()>>);

impl Protocol for Ends {
    fn serve(&self, link: Link, _: Ending, _: &SharedRuntime) -> Task {
        let ends = self.0.clone();
        Box::pin(async move { ends.send(echo(link.io).await).unwrap() })
    }
}

/// Closes a connection with bytes that were not read, which the system tells the other side by a reset.
fn reset(address: std::net::SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
}

// TRN-09
fn a_reset_is_told(rt: Rt) {
    rt.run(|runtime| async move {
        let (ends, ended) = mpsc::channel();
        let (running, address) = serve(Ends(ends)).await;
        beside(&runtime, move || {
            reset(address);
            let error = ended.recv_timeout(LONG).unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        })
        .await;
        running.stop();
    });
}

/// Starts a thread that accepts one connection and echoes its bytes. Returns the address, and the thread.
fn echoing_on_threads() -> (std::net::SocketAddr, thread::JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        echo_on_threads(antiphon_blocking::Link::from_tcp(stream).unwrap())
    });
    (address, serving)
}

// TRN-09
#[test]
fn a_reset_is_told_on_threads() {
    let (address, serving) = echoing_on_threads();
    reset(address);
    let error = serving.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

// ARC-15 TRN-01
#[test]
fn blocking_tcp_moves_any_bytes() {
    let (address, serving) = echoing_on_threads();
    talk_tcp(address);
    serving.join().unwrap().unwrap();
}

// ARC-15 TRN-01
#[cfg(unix)]
#[test]
fn blocking_unix_moves_any_bytes() {
    let path = socket_path("blocking");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let link = antiphon_blocking::Link::from_unix(stream).unwrap();
        echo_on_threads(link)
    });
    talk_unix(&path);
    std::fs::remove_file(&path).unwrap();
    serving.join().unwrap().unwrap();
}

// ARC-15 TRN-03
#[test]
fn blocking_memory_moves_any_bytes() {
    let (near, far) = antiphon_blocking::duplex(1000);
    let serving = thread::spawn(move || echo_on_threads(far.into()));
    let (reader, writer) = near.split();
    talk(reader, writer, || {});
    serving.join().unwrap().unwrap();
}

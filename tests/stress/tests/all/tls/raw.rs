//! The other side written by hand, byte by byte or with rustls alone, to do what no adapter does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon_stress::LONG;
use antiphon_stress::certificates::NAME;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Serves one connection.
fn serving(serve: impl FnOnce(TcpStream) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        serve(stream);
    });
    (address, served)
}

/// A handshake message in a record of TLS 1.1.
fn record(message: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap();
    let mut record = vec![22, 3, 2];
    record.extend((length + 4).to_be_bytes());
    record.extend([message, 0]);
    record.extend(length.to_be_bytes());
    record.extend(body);
    record
}

/// Offers TLS 1.1 and nothing else, and expects to be refused with `alert`. With `names_signatures`
/// it sends the extension of TLS 1.2 that names algorithms of signatures; some old clients do.
pub(crate) fn refused_client_of_tls_1_1(address: SocketAddr, names_signatures: bool, alert: u8) {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    // No session; AES-128-CBC and AES-256-CBC with SHA over ECDHE-ECDSA; no compression.
    hello.extend([0, 0, 4, 0xc0, 0x09, 0xc0, 0x0a, 1, 0]);
    // Elliptic curves (P-256) and point formats (uncompressed).
    hello.extend([0, if names_signatures { 22 } else { 14 }]);
    hello.extend([0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0]);
    if names_signatures {
        hello.extend([0, 13, 0, 4, 0, 2, 4, 3]);
    }
    let mut stream = connected(address);
    stream.write_all(&record(1, &hello)).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    // One fatal alert.
    assert_eq!(
        (reply[0], &reply[3..]),
        (21, &[0, 2, 2, alert][..]),
        "{reply:?}"
    );
}

/// Reads the hello of one client, and answers with a hello of TLS 1.1.
pub(crate) fn server_of_tls_1_1() -> (SocketAddr, JoinHandle<()>) {
    serving(|mut stream| {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        stream.read_exact(&mut hello).unwrap();
        let mut answer = vec![3, 2];
        answer.extend([7; 32]);
        answer.extend([0, 0xc0, 0x09, 0]);
        stream.write_all(&record(2, &answer)).unwrap();
        let mut said = Vec::new();
        // The client may cut the line instead of ending it.
        let _ = stream.read_to_end(&mut said);
    })
}

/// Talks without TLS to a server that has it.
pub(crate) fn plain_client(address: SocketAddr) {
    let mut stream = connected(address);
    stream.write_all(b"{\"jsonrpc\":\"2.0\"}\n").unwrap();
    let mut said = Vec::new();
    // What the server answers does not matter here.
    let _ = stream.read_to_end(&mut said);
}

/// Talks without TLS to a client that wants it.
pub(crate) fn plain_server() -> (SocketAddr, JoinHandle<()>) {
    serving(|mut stream| {
        stream.write_all(b"{\"jsonrpc\":\"2.0\"}\n").unwrap();
        let mut said = Vec::new();
        // The client may cut the line instead of ending it.
        let _ = stream.read_to_end(&mut said);
    })
}

type Client = StreamOwned<ClientConnection, TcpStream>;

/// A client that is rustls alone.
fn client(address: SocketAddr, config: Arc<ClientConfig>) -> Client {
    let tls = ClientConnection::new(config, NAME.try_into().unwrap()).unwrap();
    StreamOwned::new(tls, connected(address))
}

/// Asks three times, ends its half, and reads three answers and an announced end.
pub(crate) fn half_closed_client(address: SocketAddr, config: Arc<ClientConfig>) {
    let mut stream = client(address, config);
    for id in 1..=3 {
        writeln!(
            stream,
            "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[{id}],\"id\":{id}}}"
        )
        .unwrap();
    }
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    // Fails if the end is not announced.
    stream.read_to_string(&mut answers).unwrap();
    let mut lines: Vec<&str> = answers.lines().collect();
    lines.sort_unstable();
    let wanted: Vec<String> = (1..=3)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"result\":[{id}],\"id\":{id}}}"))
        .collect();
    assert_eq!(lines, wanted);
}

/// Changes its keys again and again, and asks the other side to.
pub(crate) fn client_with_new_keys(address: SocketAddr, config: Arc<ClientConfig>) {
    let mut stream = BufReader::new(client(address, config));
    for id in 1..=20 {
        let inner = stream.get_mut();
        writeln!(
            inner,
            "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[{id}],\"id\":{id}}}"
        )
        .unwrap();
        inner.conn.refresh_traffic_keys().unwrap();
        inner.flush().unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).unwrap();
        assert_eq!(
            answer,
            format!("{{\"jsonrpc\":\"2.0\",\"result\":[{id}],\"id\":{id}}}\n")
        );
    }
}

/// A server that is rustls alone.
fn server(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(config).unwrap(), stream)
}

/// Reads to the end, which must be announced, and announces its own.
pub(crate) fn server_that_reads_to_the_end(
    config: Arc<ServerConfig>,
) -> (SocketAddr, JoinHandle<()>) {
    serving(move |stream| {
        let mut stream = server(stream, config);
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    })
}

/// Answers half, and ends the stream below TLS.
pub(crate) fn server_that_is_cut(config: Arc<ServerConfig>) -> (SocketAddr, JoinHandle<()>) {
    serving(move |stream| {
        let mut stream = BufReader::new(server(stream, config));
        let mut asked = String::new();
        stream.read_line(&mut asked).unwrap();
        let stream = stream.get_mut();
        stream.write_all(b"{\"jsonrpc\":\"2.0\",").unwrap();
        stream.flush().unwrap();
        stream.sock.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        // How the client ends does not matter here.
        let _ = stream.sock.read_to_end(&mut said);
    })
}

/// Sends `first` and nothing more, and waits until the other side gives up.
pub(crate) fn waits_for_the_end(address: SocketAddr, first: &[u8]) {
    let mut stream = silent(address);
    stream.write_all(first).unwrap();
    has_ended(stream);
}

/// Sends a handshake byte by byte until the other side ends the connection.
pub(crate) fn drips_until_the_end(address: SocketAddr) {
    let mut stream = connected(address);
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    stream.write_all(b"\x16\x03\x01\x40\x00").unwrap();
    for _ in 0..0x4000 {
        if stream.write_all(&[1]).is_err() {
            return;
        }
        match stream.read(&mut [0]) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            _ => return,
        }
    }
    panic!("it would have taken all of it");
}

/// Connects, and sends nothing.
pub(crate) fn silent(address: SocketAddr) -> TcpStream {
    connected(address)
}

/// Waits until the other side has ended the stream, or reset it.
pub(crate) fn has_ended(mut stream: TcpStream) {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

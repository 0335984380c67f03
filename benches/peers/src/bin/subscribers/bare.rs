//! What the system takes for the same bytes: one write for each subscriber, of frames that are ready.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};

use crate::servers::{quote, spent};

type Subscribers = Arc<Mutex<Vec<Arc<TcpStream>>>>;

pub async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let subscribers = Subscribers::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let subscribers = Arc::clone(&subscribers);
        tokio::spawn(async move { converse(Arc::new(stream), subscribers).await });
    }
}

/// The client waits for each answer, so each read has a whole request.
async fn converse(stream: Arc<TcpStream>, subscribers: Subscribers) -> io::Result<()> {
    read(&stream).await?;
    let upgrade =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    write(&stream, upgrade.as_bytes()).await?;
    loop {
        let request = read(&stream).await?;
        let mut result = 0;
        if request.contains("subscribe") {
            subscribers
                .lock()
                .expect("no panic")
                .push(Arc::clone(&stream));
        } else if request.contains("spent") {
            result = spent();
        } else {
            let (_, params) = request.split_once("\"params\":[").unwrap_or_default();
            let mut params = params.split(|one: char| !one.is_ascii_digit());
            let mut next = || {
                params
                    .next()
                    .and_then(|digits| digits.parse().ok())
                    .unwrap_or(0)
            };
            let (prices, count) = (next(), next() as u64);
            let mut frames = Vec::new();
            for number in 0..count {
                let quote = serde_json::to_string(&quote(number, prices))?;
                let event = format!(
                    r#"{{"jsonrpc":"2.0","method":"quote","params":{{"subscription":1,"result":{quote}}}}}"#
                );
                frames.extend(frame(&event));
            }
            let all = subscribers.lock().expect("no panic").clone();
            for subscriber in all {
                write(&subscriber, &frames).await?;
            }
        }
        let answer = format!(r#"{{"jsonrpc":"2.0","result":{result},"id":1}}"#);
        write(&stream, &frame(&answer)).await?;
    }
}

fn frame(text: &str) -> Vec<u8> {
    let length = text.len() as u16;
    let mut frame = match length {
        ..126 => vec![0x81, length as u8],
        _ => vec![0x81, 126, (length >> 8) as u8, length as u8],
    };
    frame.extend_from_slice(text.as_bytes());
    frame
}

async fn read(stream: &TcpStream) -> io::Result<String> {
    let mut part = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => return Ok(String::from_utf8_lossy(&part[..read]).into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

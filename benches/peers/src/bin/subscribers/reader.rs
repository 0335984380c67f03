//! A WebSocket client that reads frames and looks into few of them.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

type Failure = Box<dyn Error>;

pub struct Reader {
    socket: TcpStream,
    /// What was read and not taken.
    held: Vec<u8>,
}

impl Reader {
    pub fn connect(port: &str) -> Result<Self, Failure> {
        let mut socket = TcpStream::connect(format!("127.0.0.1:{port}"))?;
        socket.set_nodelay(true)?;
        let upgrade = format!(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        socket.write_all(upgrade.as_bytes())?;
        let mut held = Vec::new();
        let end = loop {
            let mut part = [0; 1024];
            let read = socket.read(&mut part)?;
            held.extend_from_slice(&part[..read]);
            let end = held.windows(4).position(|four| four == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None if read == 0 => return Err("no WebSocket".into()),
                None => {}
            }
        };
        if !held.starts_with(b"HTTP/1.1 101") {
            return Err(String::from_utf8_lossy(&held).into());
        }
        held.drain(..end);
        Ok(Self { socket, held })
    }

    /// Sends a request with these members, and returns the text of the next frame, its answer.
    pub fn ask(&mut self, members: &str) -> Result<String, Failure> {
        let text = format!(r#"{{"jsonrpc":"2.0",{members},"id":1}}"#);
        let length = u8::try_from(text.len())?;
        assert!(length < 126, "a header of two bytes");
        // Masked, as a client must; with zeros, so that the text is the text.
        let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        self.socket.set_nonblocking(false)?;
        self.socket.write_all(&frame)?;
        loop {
            if let Some((start, end)) = text_frame(&self.held)? {
                let answer = String::from_utf8(self.held[start..end].to_vec())?;
                self.held.drain(..end);
                return match answer.contains(r#""result""#) {
                    true => Ok(answer),
                    false => Err(answer.into()),
                };
            }
            self.read()?;
        }
    }

    /// The processor time of the server until now, in nanoseconds.
    pub fn spent(&mut self) -> Result<u64, Failure> {
        let answer = self.ask(r#""method":"spent","params":[]"#)?;
        let (_, digits) = answer.split_once(r#""result":"#).ok_or("no result")?;
        let end = digits.find(|one: char| !one.is_ascii_digit());
        Ok(digits[..end.unwrap_or(digits.len())].parse()?)
    }

    /// Reads once. False if there is nothing.
    fn read(&mut self) -> Result<bool, Failure> {
        let mut part = [0; 1 << 16];
        match self.socket.read(&mut part) {
            Ok(0) => Err("the server has closed the connection".into()),
            Ok(read) => {
                self.held.extend_from_slice(&part[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the events that were read; returns how many.
    fn take_events(&mut self) -> Result<u64, Failure> {
        let (mut events, mut taken) = (0, 0);
        while let Some((start, end)) = text_frame(&self.held[taken..])? {
            let event = &self.held[taken + start..taken + end];
            let is_whole = event.starts_with(b"{\"jsonrpc\"") && event.ends_with(b"}}}");
            assert!(is_whole, "{}", String::from_utf8_lossy(event));
            events += 1;
            taken += end;
        }
        self.held.drain(..taken);
        Ok(events)
    }
}

/// Where the text of the first frame is; `None` if it is not whole.
fn text_frame(held: &[u8]) -> Result<Option<(usize, usize)>, Failure> {
    let [first, second, ..] = *held else {
        return Ok(None);
    };
    if first != 0x81 {
        return Err(format!("a frame that begins with {first:#x}").into());
    }
    let (start, length) = match (second, held) {
        (..126, _) => (2, usize::from(second)),
        (126, &[_, _, high, low, ..]) => (4, usize::from(u16::from_be_bytes([high, low]))),
        (126, _) => return Ok(None),
        _ => return Err("a frame of 64 KiB".into()),
    };
    let end = start + length;
    Ok((held.len() >= end).then_some((start, end)))
}

/// Reads so many events of each.
pub fn read_all(readers: &mut [Reader], count: u64) -> Result<(), Failure> {
    let mut left: Vec<(&mut Reader, u64)> =
        readers.iter_mut().map(|reader| (reader, count)).collect();
    for (reader, _) in &left {
        reader.socket.set_nonblocking(true)?;
    }
    while !left.is_empty() {
        let ready: Vec<bool> = {
            let wanted = left
                .iter()
                .map(|(reader, _)| PollFd::new(reader.socket.as_fd(), PollFlags::POLLIN));
            let mut wanted: Vec<PollFd<'_>> = wanted.collect();
            if poll(&mut wanted, PollTimeout::from(10_000_u16))? == 0 {
                return Err("no event came for ten seconds".into());
            }
            wanted.iter().map(|one| one.any().unwrap_or(true)).collect()
        };
        for ((reader, count), is_ready) in left.iter_mut().zip(ready) {
            if is_ready && reader.read()? {
                let events = reader.take_events()?;
                *count = count.checked_sub(events).ok_or("an event too many")?;
            }
        }
        left.retain(|(_, count)| *count > 0);
    }
    Ok(())
}

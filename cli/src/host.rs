//! The place where clients are waited for: the program that is started, and its connections.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use antiphon::Framing;

use crate::args::{Frames, There};
use crate::fault::Fault;
use crate::link::{Link, Next};
use crate::target::Target;
use crate::wire::{Got, Wire};

/// The most connections of a client at once. More are closed.
const CONNECTIONS_MAX: usize = 64;
/// How long the rest of a message may take.
const REST_MAX: Duration = Duration::from_secs(3);

/// Where a client reaches us, and the command that starts it.
pub(crate) struct Host {
    /// None: the client speaks over its own pipes.
    listener: Option<(TcpListener, Target)>,
    framing: Option<Framing>,
    /// The command, with `{}` where the address belongs.
    pub(crate) words: Vec<String>,
    pub(crate) timeout: Duration,
}

/// A client that runs.
pub(crate) struct Stage<'a> {
    host: &'a Host,
    /// The program, unless it speaks over its pipes and has said something.
    program: Option<Wire>,
    links: Vec<(usize, Link)>,
    /// How many connections it has made.
    pub(crate) opened: usize,
    pub(crate) framing: Framing,
}

/// What a client does next.
pub(crate) enum Came {
    /// A message, and the connection that it came over.
    Message(usize, Vec<u8>),
    /// It has ended, and so have its connections.
    Gone,
    /// Nothing until the deadline.
    Nothing,
}

impl Host {
    /// Listens.
    ///
    /// # Errors
    /// Wrong usage, or the address cannot be used.
    pub(crate) fn new(listen: &str, there: &There) -> Result<Self, Fault> {
        let mut words = there.command.clone();
        let chosen = there.framing.map(Frames::framing);
        if listen == "stdio" {
            return Ok(Self {
                listener: None,
                framing: chosen,
                words,
                timeout: there.timeout,
            });
        }
        let (target, framing) = Target::read_listen(listen).map_err(Fault::Usage)?;
        let address = match &target {
            Target::Http(web) | Target::WebSocket(web) if web.is_tls => None,
            target => target.address(),
        };
        let Some(address) = address else {
            return Err(Fault::Usage(
                "--client is stdio, or begins with tcp://, tcp+lsp://, tcp+json://, http:// or ws://".to_owned(),
            ));
        };
        if chosen.is_some() {
            return Err(Fault::Usage(
                "--framing is for --client stdio; the other addresses have a framing of their own"
                    .to_owned(),
            ));
        }
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener =
            listener.map_err(|error| Fault::Unreachable(format!("--client {listen}: {error}")))?;
        if !words.iter().any(|word| word.contains("{}")) {
            words.push("{}".to_owned());
        }
        Ok(Self {
            listener: Some((listener, target)),
            framing,
            words,
            timeout: there.timeout,
        })
    }

    pub(crate) fn target(&self) -> Option<&Target> {
        self.listener.as_ref().map(|(_, target)| target)
    }

    /// Starts the client.
    pub(crate) fn start(&self) -> std::io::Result<Stage<'_>> {
        let framing = self.framing.unwrap_or(Framing::Newline);
        let mut words = self.words.clone();
        if let Some((listener, target)) = &self.listener {
            // An earlier client may have left some.
            while listener.accept().is_ok() {}
            let port = listener.local_addr()?.port().to_string();
            let url = target.url(&port, framing);
            words = words.iter().map(|word| word.replace("{}", &url)).collect();
        }
        Ok(Stage {
            host: self,
            program: Some(Wire::start(&words, self.listener.is_none())?),
            links: Vec::new(),
            opened: 0,
            framing,
        })
    }
}

impl Stage<'_> {
    /// The next message, over any connection.
    pub(crate) fn next(&mut self, deadline: Instant) -> Came {
        loop {
            self.accept();
            let mut at = 0;
            while at < self.links.len() {
                let (number, link) = &mut self.links[at];
                if !link.has_input() {
                    at += 1;
                    continue;
                }
                match link.next(Instant::now() + REST_MAX) {
                    Next::Message(message) => return Came::Message(*number, message.body),
                    Next::Nothing => at += 1,
                    Next::Ended => drop(self.links.remove(at)),
                }
            }
            let has_exited = self.program.as_mut().is_none_or(Wire::has_exited);
            if has_exited && self.links.is_empty() {
                return Came::Gone;
            }
            if Instant::now() >= deadline {
                return Came::Nothing;
            }
            if self.links.is_empty() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn accept(&mut self) {
        let Some((listener, target)) = &self.host.listener else {
            // The first bytes tell how messages are separated.
            if let Some(mut wire) = self.program.take() {
                if wire.read(Instant::now() + Duration::from_millis(20)) == Got::Nothing {
                    self.program = Some(wire);
                    return;
                }
                let start = wire.buffer.trim_ascii_start().to_ascii_lowercase();
                if self.host.framing.is_none() && start.starts_with(b"content-") {
                    self.framing = Framing::ContentLength;
                }
                self.add(Link::of_client(wire, None, self.framing));
            }
            return;
        };
        while let Ok((stream, _)) = listener.accept() {
            let wire = Wire::accepted(stream, self.host.timeout).ok();
            if self.links.len() < CONNECTIONS_MAX {
                let link = wire.and_then(|wire| Link::of_client(wire, Some(target), self.framing));
                self.add(link);
            }
        }
    }

    fn add(&mut self, link: Option<Link>) {
        if let Some(link) = link {
            self.opened += 1;
            self.links.push((self.opened, link));
        }
    }

    /// The connection with this number, if it is still there.
    pub(crate) fn link(&mut self, number: usize) -> Option<&mut Link> {
        let link = self.links.iter_mut().find(|(known, _)| *known == number);
        link.map(|(_, link)| link)
    }

    /// Ends a connection.
    pub(crate) fn close(&mut self, number: usize) {
        self.links.retain(|(known, _)| *known != number);
    }

    pub(crate) fn is_http(&self) -> bool {
        matches!(self.host.target(), Some(Target::Http(_)))
    }

    pub(crate) fn is_web(&self) -> bool {
        matches!(
            self.host.target(),
            Some(Target::Http(_) | Target::WebSocket(_))
        )
    }

    /// What the client has written to its standard error.
    pub(crate) fn stderr(&self) -> Vec<u8> {
        match (&self.program, self.links.first()) {
            (Some(wire), _) => wire.stderr(),
            (None, Some((_, link))) => link.stderr(),
            _ => Vec::new(),
        }
    }
}

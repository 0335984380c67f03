//! Sessions through a layer.

use super::*;

/// A layer in which the first byte `O` opens, 0xff closes, 0xfe breaks a rule, and any other byte
/// is the length of the message after it. A length above [`MAX_SIZE`] is over the limit.
#[derive(Debug, Default)]
struct Bytes {
    is_open: bool,
    is_closing: bool,
    has_closed: bool,
    /// Received bytes that made no event yet.
    begun: VecDeque<u8>,
    out: Vec<u8>,
    /// When the layer wants the notification `beat` sent.
    due: Option<Instant>,
    has_ended: bool,
    /// Whether `due` has passed.
    is_late: bool,
    is_eof: bool,
    restarts: usize,
}

/// The longest message that the layer receives, in bytes.
const MAX_SIZE: usize = 120;

impl Layer for Bytes {
    fn handle_time(&mut self, _: Instant) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.is_late |= self.due.is_some_and(|due| due <= now);
    }

    fn restart_times(&mut self, _: Instant) {
        self.restarts += 1;
    }

    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        self.begun.extend(core::mem::take(input));
        if core::mem::take(&mut self.is_late) {
            self.due = None;
            return Some(LayerEvent::Notify("beat"));
        }
        let first = match self.begun.front() {
            _ if self.has_ended => return None,
            Some(first) => *first,
            None if self.is_eof => {
                self.has_ended = true;
                let lost = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Some(LayerEvent::Ended(LayerEnd::Lost(lost.into())));
            }
            None => return None,
        };
        match first {
            b'O' if !self.is_open => {
                self.begun.pop_front();
                self.is_open = true;
                let mut handshake = Handshake::new();
                handshake.target = Some("/there".into());
                Some(LayerEvent::Opened(handshake))
            }
            0xff => {
                self.has_ended = true;
                if !self.is_closing {
                    self.out.push(0xff);
                }
                self.has_closed = true;
                Some(LayerEvent::Ended(if self.is_closing {
                    LayerEnd::Local
                } else {
                    LayerEnd::Peer(None)
                }))
            }
            0xfe => {
                self.has_ended = true;
                let fault = io::Error::other("a byte of another kind");
                Some(LayerEvent::Ended(LayerEnd::Misbehaved(fault.into())))
            }
            len if usize::from(len) > MAX_SIZE => {
                self.begun.clear();
                Some(LayerEvent::Oversize(u64::from(len)))
            }
            len if self.begun.len() > usize::from(len) => {
                let message = self.begun.drain(..=usize::from(len)).skip(1).collect();
                Some(LayerEvent::Message(String::from_utf8(message).unwrap()))
            }
            _ => None,
        }
    }

    fn handle_eof(&mut self) {
        self.is_eof = true;
    }

    fn is_closed(&self) -> bool {
        self.is_closing || self.has_closed
    }

    fn hear(&mut self, method: &str) -> crate::websocket::Heartbeat {
        match method {
            "ping" => crate::websocket::Heartbeat::Answer("pong"),
            "pong" => crate::websocket::Heartbeat::Heard,
            _ => crate::websocket::Heartbeat::Deliver,
        }
    }

    fn may_send(&self) -> bool {
        self.is_open && !self.is_closing
    }

    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        into.push(u8::try_from(message.len()).unwrap());
        into.extend_from_slice(message);
        true
    }

    fn close(&mut self, _: Closed) {
        if !self.is_closing {
            self.is_closing = true;
            if !self.has_closed {
                self.out.push(0xff);
            }
        }
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.out);
    }

    fn has_transmit(&self) -> bool {
        !self.out.is_empty()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.out.is_empty()
    }
}

fn layered(layer: Bytes) -> Session<u32> {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    Session::new(config.into(), Wire::Layered(Box::new(layer)), at(0))
}

fn framed(message: &str) -> Vec<u8> {
    let len = u8::try_from(message.len()).unwrap();
    [&[len], message.as_bytes()].concat()
}

fn raw_output(session: &mut Session<u32>) -> Vec<u8> {
    let mut written = Vec::new();
    while session.take_transmit(&mut written) {
        session.handle_written();
    }
    written
}

#[test]
fn nothing_is_told_before_a_layer_is_open() {
    let mut session = layered(Bytes::default());
    assert!(!session.has_opened());
    assert!(session.poll_work(true).is_none());
    session.handle_input(b"O");
    assert!(session.has_opened());
    assert_eq!(work(&mut session), ["opened"]);
    // Nor is the end of a call.
    let mut session = layered(Bytes::default());
    let deadline = Some(at(1000));
    session.call_in_order("c", (), deadline, 7).unwrap();
    session.handle_timeout(at(1000));
    assert!(session.has_work());
    assert!(session.poll_work(true).is_none());
    session.handle_input(b"O");
    assert_eq!(work(&mut session), ["opened", "settled 7"]);
}

#[test]
fn through_a_layer_messages_go_both_ways_once_it_is_open() {
    let input = [&b"O"[..], &framed(M1), &framed(N), &[0xff]].concat();
    for size in [1, 2, input.len()] {
        let mut session = layered(Bytes::default());
        session.notify("early", ()).unwrap();
        assert_eq!(session.phase(), Phase::Opening);
        assert!(raw_output(&mut session).is_empty());
        let mut seen = Vec::new();
        let mut answer = None;
        for piece in input.chunks(size) {
            session.handle_input(piece);
            while let Some(work) = session.poll_work(true) {
                if let Work::Opened = &work {
                    let told = session.take_handshake().target;
                    assert_eq!(told.as_deref(), Some("/there"));
                }
                let (word, ticket) = describe(work);
                seen.push(word);
                answer = answer.or(ticket);
            }
        }
        let wanted: &[_] = if size == input.len() {
            // The close came in the same read as the request, so the request never began.
            &["opened", "notification n"]
        } else {
            &["opened", "request m", "notification n", "cancelled"]
        };
        assert_eq!(seen, wanted);
        assert!(session.phase().closed().is_some());
        drop(answer);
        let written = raw_output(&mut session);
        assert_eq!(written.last(), Some(&0xff));
        assert!(session.phase().is_over(), "{:?}", session.phase());
    }
}

#[test]
fn a_layer_closes_when_all_is_written_and_waits_for_the_peers_close() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.notify("last", ()).unwrap();
    session.close(CloseReason::Done);
    let written = raw_output(&mut session);
    assert!(written.len() > 10 && written.last() == Some(&0xff));
    assert!(!session.phase().is_over() && session.wants_input());
    session.handle_input(&[0xff]);
    assert_eq!(
        session.phase(),
        Phase::Over(Closed::Local(CloseReason::Done))
    );
}

#[test]
fn a_peer_that_never_closes_its_layer_is_let_go_of() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.close(CloseReason::Done);
    raw_output(&mut session);
    let due = session.poll_timeout().expect("a deadline");
    session.handle_timeout(due);
    assert!(session.phase().is_over());
}

// USE-29
#[test]
fn a_peer_that_ends_its_direction_below_a_layer_without_its_close_is_gone() {
    let mut session = layered(Bytes::default());
    session.handle_input(&[&b"O"[..], &framed(M1)].concat());
    let ticket = request(&mut session);
    session.handle_eof();
    assert!(session.phase().closed().is_some() && session.fault().is_some());
    assert!(session.respond(ticket, &1).is_err());
    let written = raw_output(&mut session);
    assert!(!written.windows(8).any(|bytes| bytes == br#""result""#));
}

#[test]
fn a_stream_that_ends_without_a_close_is_a_fault_of_the_transport() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.call("c", (), None, 1).unwrap();
    raw_output(&mut session);
    session.handle_eof();
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert!(session.fault().is_some());
    // A failure to read after a close is no fault.
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.close(CloseReason::Done);
    session.handle_read_failed(io::Error::from(io::ErrorKind::ConnectionReset));
    assert!(session.fault().is_none());
}

#[test]
fn heartbeats_of_a_layer_are_answered_and_sent_unseen() {
    let due = Some(at(50));
    let mut session = layered(Bytes {
        due,
        ..Bytes::default()
    });
    session.handle_input(b"O");
    let ping = framed(r#"{"jsonrpc":"2.0","method":"ping"}"#);
    let pong = framed(r#"{"jsonrpc":"2.0","method":"pong"}"#);
    session.handle_input(&[ping, pong].concat());
    assert_eq!(work(&mut session), ["opened"]);
    assert!(session.has_heard());
    let written = String::from_utf8_lossy(&raw_output(&mut session)).into_owned();
    assert!(written.contains("pong"), "{written}");
    assert_eq!(session.poll_timeout(), Some(at(50)));
    session.handle_timeout(at(50));
    let written = String::from_utf8_lossy(&raw_output(&mut session)).into_owned();
    assert!(written.contains("beat"), "{written}");
}

#[test]
fn what_a_layer_may_not_take_closes_it_with_a_report() {
    let mut session = layered(Bytes::default());
    // A length of 200.
    session.handle_input(b"O\xc8");
    assert!(session.phase().closed().is_some());
    assert!(work(&mut session)[1].starts_with("report: a refused message"));
    let mut session = layered(Bytes::default());
    session.handle_input(b"O\xfe");
    assert_eq!(work(&mut session)[1], "report: a byte of another kind",);
    let why = Closed::Local(CloseReason::PeerMisbehaved);
    assert_eq!(session.phase().closed(), Some(why));
}

#[test]
fn an_end_below_a_layer_waits_for_nothing_that_is_being_written() {
    let lost = Closed::Local(CloseReason::TransportFailed);
    for is_writing in [false, true] {
        let mut session = layered(Bytes::default());
        session.handle_input(b"O");
        assert_eq!(session.phase(), Phase::Open);
        if is_writing {
            session.notify("n", ()).unwrap();
            assert!(session.take_transmit(&mut Vec::new()));
        }
        session.handle_eof();
        assert_eq!(session.phase().closed(), Some(lost));
        assert!(session.fault().is_some());
    }
}

#[test]
fn a_handshake_during_a_drain_does_not_open_again() {
    let mut session = layered(Bytes::default());
    session.notify("n", ()).unwrap();
    session.drain();
    assert_eq!(session.phase(), Phase::Draining);
    session.handle_input(b"O");
    assert!(session.phase().closed().is_none());
    assert_eq!(session.phase(), Phase::Draining);
    // After the session is over, the layer gets no input.
    let mut session = layered(Bytes::default());
    session.abort(None);
    session.handle_input(b"O");
    assert_eq!(work(&mut session), [""; 0]);
}

#[test]
fn a_layer_is_listened_to_for_as_long_as_its_close_is_awaited() {
    let mut session = layered(Bytes::default());
    session.handle_input(b"O");
    session.close(CloseReason::Done);
    raw_output(&mut session);
    session.handle_time(at(20_000));
    assert!(session.wants_input());
}

#[test]
fn messages_through_a_layer_are_written_together_up_to_a_limit() {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    let wire = Wire::Layered(Box::new(Bytes::default()));
    let mut session: Session<u32> = Session::new(config.into(), wire, at(0));
    session.handle_input(b"O");
    let text = "x".repeat(200);
    for _ in 0..500 {
        session.notify("n", &[&text]).unwrap();
    }
    let size = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{text}"]}}"#).len() + 1;
    // A write ends with the message that brings it to 64 KiB or more.
    let full = (64 * 1024usize).next_multiple_of(size);
    // Bytes that the buffer already held do not count against the limit of a write.
    let mut into = alloc::vec![0; 50_000];
    assert!(session.take_transmit(&mut into));
    assert_eq!(into.len(), 50_000 + full);
    session.handle_written();
    into.clear();
    assert!(session.take_transmit(&mut into));
    assert_eq!(into.len(), 500 * size - full);
}

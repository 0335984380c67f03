//! Many threads call one peer over a socket: calls of every kind, some cancelled, while the connection
//! goes on, is closed, drains or is cut. Prints how many calls there were.
//!
//! Every call ends, each answered one with its own answer, and no call ends because of the
//! connection unless the connection was ended.

#![cfg(unix)]

use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use antiphon::{CloseReason, Config, ErrorObject, FetchError};
use antiphon_blocking::{
    Answer, CallError, Link, Notification, OwnedError, Peer, Request, Service, attach,
};
use antiphon_stress::LONG;
use antiphon_test_support::random::Random;

/// How many connections there are, one after another.
const ROUNDS: u64 = 96;

/// How many calls there must be at least.
const CALLS_MIN: u64 = 9000;

/// The timeout of a call that must not time out.
const PATIENCE: Duration = Duration::from_secs(20);

/// A random time of less than so many milliseconds.
fn pause(random: &mut Random, millis: u64) -> Duration {
    Duration::from_micros(random.below(1000 * millis))
}

/// The caller's number and the number of its call: the params of each call, and its result.
type Word = (u64, u64);

/// Answers with the params: at once, later, slowly, after a call back, or after notifications.
struct Mirror(Random);

impl Service for Mirror {
    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let word: Word = request.params()?;
        let pause = pause(&mut self.0, 3);
        match request.method() {
            "later" => {
                request.defer().spawn(move |reply| {
                    thread::sleep(pause);
                    // Fails if the connection has ended or the call was given up.
                    let _ = reply.ok(&word);
                });
                return Ok(Answer::deferred());
            }
            "slow" => thread::sleep(pause),
            "back" => {
                let peer = peer.to_unowned();
                request.defer().spawn(move |reply| {
                    let _ = match peer.call::<Word>("now", &word).wait() {
                        Ok(word) => reply.ok(&word),
                        Err(_) => reply.err(&ErrorObject::internal_error()),
                    };
                });
                return Ok(Answer::deferred());
            }
            "told" => {
                for note in 0..5 {
                    let _ = peer.try_notify("note", &[note]);
                }
            }
            _ => {}
        }
        Ok(word.into())
    }
}

/// The callers' side: answers the calls back like [`Mirror`], and counts notifications.
struct Near(Arc<AtomicU64>);

impl Service for Near {
    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Mirror(Random::new(1)).request(peer, request)
    }

    fn notification(&mut self, _: &Peer, _: Notification) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Our peer closes it after all of its calls have ended.
    WithItsPeer,
    Closed,
    Drained,
    Cut,
}

/// Both ends of a socket, and a function that shuts it down.
fn socket(is_unix: bool) -> (Link, Link, Box<dyn FnOnce() + Send>) {
    if is_unix {
        let (near, far) = UnixStream::pair().unwrap();
        let knife = near.try_clone().unwrap();
        let cut = move || drop(knife.shutdown(Shutdown::Both));
        let links = [near, far].map(|stream| Link::from_unix(stream).unwrap());
        let [near, far] = links;
        return (near, far, Box::new(cut));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let knife = near.try_clone().unwrap();
    let cut = move || drop(knife.shutdown(Shutdown::Both));
    let [near, far] = [near, far].map(|stream| Link::from_tcp(stream).unwrap());
    (near, far, Box::new(cut))
}

/// Turns the result of a call in a batch into the result of a single call.
fn fetched(found: Result<Word, FetchError>) -> Result<Word, CallError> {
    found.or_else(|error| match error {
        FetchError::Outcome(outcome) => CallError::decoded(outcome),
        FetchError::Decode(error) => Err(CallError::Decode(error)),
        _ => panic!("the batch has lost a call"),
    })
}

/// Makes one call, or a batch of two, in one of the ways that a caller has. True if it was given
/// up: its handle was dropped before the answer.
fn call(peer: &Peer, random: &mut Random, word: Word, is_hasty: bool) -> Result<bool, CallError> {
    let methods = ["now", "now", "now", "later", "slow", "back", "told"];
    let method = methods[random.below(7) as usize];
    let timeout = Some(if is_hasty {
        pause(random, 20)
    } else {
        PATIENCE
    });
    let answer = match random.below(5) {
        0 | 1 => peer.call(method, &word).timeout(timeout).wait()?,
        2 => peer
            .call(method, &word)
            .timeout(timeout)
            .start()
            .wait()?
            .wait()?,
        3 => {
            let mut pending = peer.call(method, &word).timeout(timeout).start().wait()?;
            if random.below(2) == 0 {
                thread::sleep(pause(random, 1));
                return Ok(true);
            }
            // A short wait first, then a wait to the end.
            match pending.poll_outcome(pause(random, 2)) {
                Some(outcome) => CallError::decoded(outcome)?,
                None => pending.wait()?,
            }
        }
        _ => {
            let (handles, mut outcomes) = peer
                .batch(|batch| {
                    let first = batch.call::<Word>(method, &word)?;
                    Ok([first, batch.call(method, &word)?])
                })
                .timeout(timeout)
                .wait()?;
            let [first, second] = handles.map(|handle| fetched(outcomes.fetch(handle)));
            assert_eq!(second?, word, "the answer is another call's");
            first?
        }
    };
    assert_eq!(answer, word, "the answer is another call's");
    Ok(false)
}

/// How the calls of one connection ended: answered, given up, timed out, otherwise.
fn round(seed: u64, end: End, is_unix: bool, notes: &Arc<AtomicU64>) -> [u64; 4] {
    let mut random = Random::new(seed);
    let (near, far, cut) = socket(is_unix);
    let server = attach(far, Config::new(), Mirror(Random::new(seed))).unwrap();
    let peer = attach(near, Config::new(), Near(Arc::clone(notes))).unwrap();
    let is_hasty = random.below(2) == 0;
    let callers: Vec<_> = (0..1 + random.below(6))
        .map(|caller| {
            let (peer, mut random) = (peer.clone(), Random::new(random.below(u64::MAX) | 1));
            thread::spawn(move || {
                let mut ended = [0; 4];
                for number in 0..40 {
                    match call(&peer, &mut random, (caller, number), is_hasty) {
                        Ok(is_given_up) => ended[usize::from(is_given_up)] += 1,
                        Err(CallError::TimedOut) => {
                            assert!(is_hasty, "nothing took as long as {PATIENCE:?}");
                            ended[2] += 1;
                        }
                        Err(error) => {
                            assert!(end != End::WithItsPeer, "{error} on an open connection");
                            ended[3] += 1;
                        }
                    }
                    if random.below(8) == 0 {
                        thread::sleep(pause(&mut random, 4));
                    }
                }
                ended
            })
        })
        .collect();
    thread::sleep(pause(&mut random, 40));
    match end {
        End::WithItsPeer => {}
        End::Closed => peer.close(CloseReason::Done),
        End::Drained => peer.drain(),
        End::Cut => cut(),
    }
    let mut ended = [0; 4];
    for caller in callers {
        let counted = caller.join().unwrap();
        ended
            .iter_mut()
            .zip(counted)
            .for_each(|(all, one)| *all += one);
    }
    peer.close(CloseReason::Done);
    for peer in [peer, server] {
        assert!(
            peer.wait_closed(LONG).wait().is_some(),
            "{end:?}: it does not end"
        );
    }
    ended
}

// CON-06 STD-09
#[test]
fn a_crowd_at_one_peer_settles_every_call_with_its_own_answer() {
    let (report, reported) = channel();
    let crowd = thread::spawn(move || {
        let (mut all, notes) = ([0; 4], Arc::<AtomicU64>::default());
        let ends = [End::WithItsPeer, End::Closed, End::Drained, End::Cut];
        for number in 0..ROUNDS {
            let (end, is_unix) = (ends[number as usize % 4], number / 4 % 2 == 1);
            // An odd constant that gives rounds beside each other seeds far apart.
            let seed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let ended = round(seed, end, is_unix, &notes);
            all.iter_mut().zip(ended).for_each(|(all, one)| *all += one);
            // Fails if the receiver has panicked because a round took too long.
            let _ = report.send(Some(format!("{end:?}, {number}")));
        }
        let _ = report.send(None);
        (all, notes.load(Ordering::Relaxed))
    });
    let mut last = String::new();
    loop {
        match reported.recv_timeout(2 * LONG) {
            Ok(Some(round)) => last = round,
            Ok(None) => break,
            Err(_) if crowd.is_finished() => break,
            Err(_) => panic!("a call never ends after round {last}"),
        }
    }
    let ([answered, given_up, late, ended], notes) = crowd.join().unwrap();
    println!(
        "a crowd: {answered} calls answered, {given_up} given up, {late} timed out, {ended} ended with their connection; {notes} notes"
    );
    assert!(answered + given_up + late + ended >= CALLS_MIN);
    // Enough of each that no way to end is missing.
    assert!(answered > 2000 && given_up > 200 && late > 20 && ended > 200 && notes > 500);
}

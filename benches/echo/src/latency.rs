//! How long an answer takes under load: our server over TCP on each runtime, asked at a steady rate by a plain socket.
//!
//! ```text
//!   latency [--seconds N] [--rounds N]
//! ```
//!
//! Of 10 000 requests one takes its handler 20 ms, on the pool, and one carries 1 MiB there and back; the times are those of
//! the small ones. First the highest rate of the server is measured, with 256 requests outstanding; then it is asked half and
//! 0.9 of that a second. A time runs from when its request was due (`load.rs`). `waited` is the largest number of writes that
//! an answer waited for: those that were not done when it was given, and came before the one that carried it (`recorder.rs`).
//! With 1 it waited for the one that was under way and for no other. To count them the server has a stream that records its
//! writes; for the times it has the socket itself.
//!
//! The load needs the machine for itself: a thread that sends, one that reads, and those of the server.
#![forbid(unsafe_code)]

mod load;
mod recorder;
#[allow(
    dead_code,
    reason = "the server has a thread of its own, and no worker"
)]
mod runtime;

mod row {
    /// Any error ends the program.
    pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
}

use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_tokio::{Answer, OwnedError, Peer, Request, Service};

use load::{Kind, Pace, kind};
use recorder::{Recorder, Writes};
use row::Outcome;
use runtime::Runtime;

/// How long the slow handler takes.
const SLOW: Duration = Duration::from_millis(20);

/// Which shares of the highest rate are asked for.
const SHARES: [f64; 2] = [0.5, 0.9];

/// What the server did: when each answer was given, and its writes.
#[derive(Clone, Default)]
struct Record {
    /// Whether anything is recorded. If not, the server has the socket itself, as it usually has.
    is_kept: bool,
    answered: Arc<Mutex<Vec<(u64, Instant)>>>,
    writes: Arc<Mutex<Writes>>,
}

/// Answers with the number that it was asked with, and the text.
struct Timed(Record);

impl Timed {
    fn answer(&self, request: &Request) -> Result<Answer, OwnedError> {
        if request.method() == "slow" {
            request.defer().spawn(|reply| {
                thread::sleep(SLOW);
                // It fails if the connection ends first.
                drop(reply.ok("late"));
            });
            return Ok(Answer::deferred());
        }
        if !self.0.is_kept {
            let (_, text): (u64, &str) = request.params()?;
            return Ok(text.into());
        }
        // Only with a responder is it known when the answer was given.
        let reply = request.defer();
        let (number, text): (u64, &str) = request.params()?;
        if let Err(error) = reply.ok(text) {
            eprintln!("an answer was not sent: {error}");
        }
        lock(&self.0.answered).push((number, Instant::now()));
        Ok(Answer::deferred())
    }
}

impl Service for Timed {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.answer(request)
    }
}

impl antiphon_blocking::Service for Timed {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        self.answer(request)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> Config {
    let mut config = Config::new();
    config.limits.max_message_bytes = 4 << 20;
    config.limits.max_outbox_bytes = 256 << 20;
    // Requests that come while the server stands still are served, not refused.
    config.limits.max_open_requests = 1 << 20;
    config
}

/// Serves one connection until it ends.
type Serve = fn(TcpStream, Record) -> Outcome<()>;

fn blocking(stream: TcpStream, record: Record) -> Outcome<()> {
    use antiphon_blocking::{Link, serve};
    let link = match record.is_kept {
        true => Link::new(
            stream.try_clone()?,
            Recorder::new(stream, record.writes.clone()),
        ),
        false => Link::from_tcp(stream)?,
    };
    serve(link, config(), Timed(record))?;
    Ok(())
}

fn tokio(stream: TcpStream, record: Record) -> Outcome<()> {
    use antiphon_tokio::{Link, serve};
    stream.set_nonblocking(true)?;
    Runtime::tokio()?.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let link = match record.is_kept {
            true => Link::from_tokio(Recorder::new(stream, record.writes.clone())),
            false => Link::from_tcp(stream)?,
        };
        serve(link, config(), Timed(record)).await?;
        Ok(())
    })
}

fn smol(stream: TcpStream, record: Record) -> Outcome<()> {
    use antiphon_smol::{Link, serve};
    let link = match record.is_kept {
        true => Link::from_futures(Recorder::new(
            async_io::Async::new(stream)?,
            record.writes.clone(),
        )),
        false => Link::from_tcp(async_net::TcpStream::from(async_io::Async::new(stream)?))?,
    };
    Runtime::smol().block_on(serve(link, config(), Timed(record)))?;
    Ok(())
}

/// Times in microseconds, and the writes that were waited for.
#[derive(Clone, Copy, Default)]
struct Figures {
    percentiles: [f64; 3],
    waited: usize,
}

/// A round: the highest rate of the server, then the figures at each share of it.
fn round(serve: Serve, span: Duration, is_kept: bool) -> Outcome<(f64, [Figures; 2])> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    socket.set_nodelay(true)?;
    let (served, _) = listener.accept()?;
    served.set_nodelay(true)?;
    let record = Record {
        is_kept,
        ..Record::default()
    };
    let its = record.clone();
    let server = thread::spawn(move || serve(served, its).map_err(|error| error.to_string()));
    let most = load::run(&socket, Pace::Most, span / 2, 0, 0)?;
    let (mut first, mut from) = (most.answers.len() as u64, end(&most));
    let rate = most.rate();
    let mut all = [Figures::default(); 2];
    for (share, figures) in SHARES.into_iter().zip(&mut all) {
        lock(&record.answered).clear();
        let rate = rate * share;
        let run = load::run(&socket, Pace::Rate(rate), span, first, from)?;
        *figures = judge(&run, rate, first, &record);
        (first, from) = (first + run.answers.len() as u64, end(&run));
    }
    socket.shutdown(std::net::Shutdown::Both)?;
    // The connection is cut here, so it may end with an error.
    drop(server.join().map_err(|_| "the server's thread ended")?);
    Ok((rate, all))
}

fn end(run: &load::Run) -> u64 {
    run.answers.last().map_or(0, |answer| answer.end)
}

fn judge(run: &load::Run, rate: f64, first: u64, record: &Record) -> Figures {
    let mut given = vec![None; run.answers.len()];
    for (number, at) in lock(&record.answered).iter() {
        given[(number - first) as usize] = Some(*at);
    }
    let writes = lock(&record.writes);
    let mut times = Vec::with_capacity(run.answers.len());
    let mut waited = 0;
    for answer in &run.answers {
        if kind(answer.number) != Kind::Small {
            continue;
        }
        let due = run.began + Duration::from_secs_f64((answer.number - first) as f64 / rate);
        times.push(answer.came.saturating_duration_since(due));
        if let Some(given) = given[(answer.number - first) as usize] {
            waited = waited.max(writes.before(given, answer.end));
        }
    }
    times.sort();
    let at = |share: f64| {
        let time = times.get((times.len() as f64 * share) as usize);
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    };
    Figures {
        percentiles: [at(0.5), at(0.99), at(0.999)],
        waited,
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Outcome<()> {
    let (mut seconds, mut rounds) = (4.0, 3);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--seconds" => seconds = value.parse()?,
            "--rounds" => rounds = value.parse::<usize>()?.max(1),
            _ => return Err(format!("{word}: there is no such option").into()),
        }
    }
    let span = Duration::from_secs_f64(seconds);
    println!("| server | the most, requests/s | asked | p50 µs | p99 µs | p99.9 µs | waited |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let servers: [(&str, Serve); 3] = [("blocking", blocking), ("tokio", tokio), ("smol", smol)];
    let mut worst = 0;
    for (name, serve) in servers {
        let all = (0..rounds)
            .map(|_| round(serve, span, false))
            .collect::<Outcome<Vec<_>>>()?;
        let (_, recorded) = round(serve, span, true)?;
        let most = middle(all.iter().map(|(most, _)| *most).collect());
        for (at, share) in SHARES.into_iter().enumerate() {
            let of = |place: usize| {
                middle(
                    all.iter()
                        .map(|(_, figures)| figures[at].percentiles[place])
                        .collect(),
                )
            };
            let waited = recorded[at].waited;
            worst = worst.max(waited);
            let [p50, p99, p999] = [of(0), of(1), of(2)];
            println!(
                "| {name} | {most:.0} | {share} | {p50:.0} | {p99:.0} | {p999:.0} | {waited} |"
            );
        }
    }
    match worst {
        0 | 1 => println!("\nNo answer waited for more than the one write that was under way."),
        _ => println!("\nAn answer WAITED for {worst} writes."),
    }
    Ok(())
}

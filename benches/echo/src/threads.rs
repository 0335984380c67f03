//! A call on threads beside the same call through the two channels and two threads of lsp-server, over TCP and over
//! the pipes of a child process; and what a connection at rest holds.
//!
//! ```text
//!   threads [--calls N] [--rounds N] [--raw yes]    the tables, or with --raw the time of a call in every round
//! ```
//!
//! Rule: the other side is a process of its own and the same for all, so that nothing of it is measured. All take
//! turns in every round, and the ratios are those of the same round. lsp-server comes twice: it writes a
//! message in four pieces, so *buffered* has its messages in one write, as ours are. What a connection holds is
//! counted in a new process, because freed memory would be used again.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, Framing};
use antiphon_blocking::{Client, Link, Peer, attach, connect};
use crossbeam_channel::bounded;
use lsp_server::{Connection, Message, Request, RequestId, Response};

/// Any error ends the program.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Makes so many calls, one after another, over a connection of its own.
type Calls = Box<dyn FnMut(usize) -> Outcome<()>>;

/// What opens a connection to the server, or to a child of its own, and its name.
const WAYS: [(&str, fn(SocketAddr) -> Outcome<Calls>); 7] = [
    ("TCP: antiphon", ours_tcp),
    ("TCP: lsp-server", |server| lsp_tcp(server, |stream| stream)),
    ("TCP: lsp-server, buffered", |server| {
        lsp_tcp(server, BufWriter::new)
    }),
    ("pipes: antiphon, Child", |_| ours_child()),
    ("pipes: antiphon, Link::new", |_| ours_pipes()),
    ("pipes: lsp-server", |_| lsp_pipes(|stdin| stdin)),
    ("pipes: lsp-server, buffered", |_| lsp_pipes(BufWriter::new)),
];

/// Which way is compared with which.
const RATIOS: [(usize, usize); 6] = [(0, 1), (0, 2), (3, 5), (3, 6), (4, 5), (4, 6)];

const WORD: &str = "hello";

/// How many connections share what is counted at rest.
const CONNECTIONS: usize = 64;

/// How long connections are left alone before they count as at rest. A thread of a pool without a job ends in 5 s.
const REST_TIME: Duration = Duration::from_secs(7);

fn check((word,): (String,)) -> Outcome<()> {
    match word == WORD {
        true => Ok(()),
        false => Err(format!("the echo was {word:?}").into()),
    }
}

fn config() -> Config {
    Config::new().framing(Framing::ContentLength)
}

fn ours_tcp(server: SocketAddr) -> Outcome<Calls> {
    let client: Client = connect(format!("tcp://{server}"), config(), ())?;
    Ok(Box::new(move |calls| {
        (0..calls).try_for_each(|_| check(client.call("echo", &(WORD,)).wait()?))
    }))
}

fn by_peer(peer: Peer, alive: impl Sized + 'static) -> Calls {
    Box::new(move |calls| {
        let _ = &alive;
        (0..calls).try_for_each(|_| check(peer.call("echo", &(WORD,)).wait()?))
    })
}

fn ours_child() -> Outcome<Calls> {
    let child = antiphon_blocking::Child::spawn(this_program("child")?, config(), ())?;
    Ok(by_peer(child.peer().clone(), child))
}

fn ours_pipes() -> Outcome<Calls> {
    let (child, stdin, stdout) = piped("child")?;
    Ok(by_peer(
        attach(Link::new(stdout, stdin), config(), ())?,
        child,
    ))
}

fn lsp_tcp<W: Write + Send + 'static>(
    server: SocketAddr,
    wrap: fn(TcpStream) -> W,
) -> Outcome<Calls> {
    let stream = TcpStream::connect(server)?;
    // Without it a message in pieces takes 40 ms.
    stream.set_nodelay(true)?;
    let read = BufReader::new(stream.try_clone()?);
    Ok(by_channels(channels(read, wrap(stream)), ()))
}

fn lsp_pipes<W: Write + Send + 'static>(wrap: fn(ChildStdin) -> W) -> Outcome<Calls> {
    let (child, stdin, stdout) = piped("child")?;
    let connection = channels(BufReader::new(stdout), wrap(stdin));
    Ok(by_channels(connection, child))
}

/// What lsp-server makes of a socket: a thread that reads, one that writes, and a channel without room to each.
fn channels(
    mut read: impl BufRead + Send + 'static,
    mut write: impl Write + Send + 'static,
) -> Connection {
    let (sender, messages) = bounded::<Message>(0);
    let (received, receiver) = bounded(0);
    thread::spawn(move || {
        let mut messages = messages.into_iter();
        messages.try_for_each(|message| message.write(&mut write))
    });
    thread::spawn(move || {
        while let Ok(Some(message)) = Message::read(&mut read) {
            if received.send(message).is_err() {
                return;
            }
        }
    });
    Connection { sender, receiver }
}

fn by_channels(connection: Connection, alive: impl Sized + 'static) -> Calls {
    let mut last = 0;
    Box::new(move |calls| {
        let _ = &alive;
        for _ in 0..calls {
            last += 1;
            let id = RequestId::from(last);
            let request = Request::new(id.clone(), "echo".into(), (WORD,));
            connection.sender.send(request.into())?;
            match connection.receiver.recv()? {
                Message::Response(response) if response.id == id => {
                    let result = response.response_result.map_err(|error| error.message)?;
                    check(serde_json::from_value(result)?)?;
                }
                _ => return Err("an answer was none".into()),
            }
        }
        Ok(())
    })
}

fn this_program(part: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(part);
    Ok(command)
}

/// Starts a part of this program, whose standard input and output are pipes.
fn piped(part: &str) -> Outcome<(Child, ChildStdin, ChildStdout)> {
    let mut command = this_program(part)?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let ends = child.stdin.take().zip(child.stdout.take());
    let (stdin, stdout) = ends.ok_or("a pipe is missing")?;
    Ok((child, stdin, stdout))
}

/// Answers each request with its params, until the input ends.
fn echo(read: impl Read, write: impl Write) -> io::Result<()> {
    let (mut read, mut write) = (BufReader::new(read), BufWriter::new(write));
    while let Some(message) = Message::read(&mut read)? {
        if let Message::Request(request) = message {
            Message::from(Response::new_ok(request.id, request.params)).write(&mut write)?;
        }
    }
    Ok(())
}

/// The server: tells its address, and ends with its input.
fn serve() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = move || {
                stream.set_nodelay(true)?;
                echo(&stream, &stream)
            };
            thread::spawn(serve);
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Starts the server, which ends when what is returned is dropped.
fn server() -> Outcome<(ChildStdin, SocketAddr)> {
    let (_, stdin, stdout) = piped("server")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((stdin, line.trim().parse()?))
}

/// Threads, and kilobytes of memory that are no file's, of this process.
fn held() -> Outcome<[f64; 2]> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.ok_or_else(|| format!("there is no {name}"))
    };
    Ok([of("Threads:")?.parse()?, of("RssAnon:")?.parse()?])
}

/// Prints what a connection at rest holds that was opened in one way, and has been used once.
fn rest(way: &str) -> Outcome<()> {
    let ways = WAYS.iter().find(|(name, _)| *name == way);
    let (_, open) = ways.ok_or("there is no such way")?;
    let (_server, address) = server()?;
    // The first makes what is made only once.
    let mut all = vec![open(address)?];
    all[0](1)?;
    thread::sleep(REST_TIME);
    let before = held()?;
    for _ in 0..CONNECTIONS {
        let mut calls = open(address)?;
        calls(1)?;
        all.push(calls);
    }
    thread::sleep(REST_TIME);
    let after = held()?;
    let each = [0, 1].map(|at| (after[at] - before[at]) / CONNECTIONS as f64);
    println!("| {way} | {:.2} | {:.1} |", each[0], each[1]);
    Ok(())
}

/// Microseconds of a call, by way and round.
fn times(calls: usize, rounds: usize) -> Outcome<Vec<Vec<f64>>> {
    let (_server, address) = server()?;
    let ways = WAYS.iter().map(|(_, open)| open(address));
    let mut ways = ways.collect::<Outcome<Vec<_>>>()?;
    let mut times = vec![Vec::with_capacity(rounds); ways.len()];
    for way in &mut ways {
        way(calls)?;
    }
    for _ in 0..rounds {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let began = Instant::now();
            way(calls)?;
            times.push(began.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
    }
    Ok(times)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(times: &[Vec<f64>]) {
    println!("| a call, 1 in flight | µs |\n|---|--:|");
    for ((name, _), times) in WAYS.iter().zip(times) {
        println!("| {name} | {:.1} |", median(times.clone()));
    }
    println!("\n| ratio | of the times |\n|---|--:|");
    for (ours, theirs) in RATIOS {
        let ratios = times[ours].iter().zip(&times[theirs]);
        let ratio = median(ratios.map(|(ours, theirs)| ours / theirs).collect());
        println!("| {} ÷ {} | {ratio:.2} |", WAYS[ours].0, WAYS[theirs].0);
    }
}

fn main() -> Outcome<()> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => return serve(),
        // The standard library's writer of this stream would write a message in two pieces.
        ["child"] => {
            let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(echo(io::stdin(), stdout)?);
        }
        ["rest", way] => return rest(way),
        _ => {}
    }
    let (mut calls, mut rounds, mut is_raw) = (1000, 15, false);
    for pair in words.chunks(2) {
        match pair {
            [word, value] if word == "--calls" => calls = value.parse()?,
            [word, value] if word == "--rounds" => rounds = value.parse::<usize>()?.max(1),
            [word, _] if word == "--raw" => is_raw = true,
            _ => return Err(format!("{}: there is no such option", pair[0]).into()),
        }
    }
    let times = times(calls, rounds)?;
    if is_raw {
        for ((name, _), times) in WAYS.iter().zip(&times) {
            let times: Vec<_> = times.iter().map(|time| format!("{time:.3}")).collect();
            println!("{name}\t{}", times.join("\t"));
        }
        return Ok(());
    }
    print(&times);
    println!("\n| a connection at rest | threads | kB |\n|---|--:|--:|");
    let rests = WAYS.map(|(way, _)| {
        this_program("rest")?
            .arg(way)
            .stdout(Stdio::piped())
            .spawn()
    });
    for rest in rests {
        let printed = rest?.wait_with_output()?.stdout;
        print!("{}", String::from_utf8(printed)?);
    }
    Ok(())
}

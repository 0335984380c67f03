//! What durable topics in a file cost, beside redb alone on the same disk, in one run: `cargo bench -p antiphon-redb`.
//!
//! Each line has its bound; one that is not kept ends the program with exit code 1. Ours and redb alone take turns, with a
//! pause between, and each ratio is the median of its rounds: disks become slower while they are used.

#[path = "../../../benches/counting/mod.rs"]
#[allow(unreachable_pub, reason = "programs of other crates have it, too")]
mod counting;

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write, stdout};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antiphon_redb::RedbStore;
use antiphon_tokio::durable::{AckMode, Start};
use antiphon_tokio::{Config, Durable, DurableConfig, Router, TcpServer};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use tokio::runtime::Runtime;

type Done<T = ()> = Result<T, Box<dyn Error>>;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("messages");
const PUBLISHERS: usize = 64;
const ROUNDS: usize = 7;
/// Groups of 64 in a round, and single messages in a round.
const GROUPS: usize = 40;
const SINGLES: usize = 200;
const STORED: usize = 100_000;
const IDLE: usize = 200;
const PAUSE: Duration = Duration::from_millis(200);

/// A file whose syncs and changes of length are counted.
#[derive(Debug)]
struct Counted(FileBackend, Arc<[AtomicU64; 2]>);

impl StorageBackend for Counted {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.1[1].fetch_add(1, Ordering::Relaxed);
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.1[0].fetch_add(1, Ordering::Relaxed);
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(format_args!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Done<bool> {
    let folder = tempfile::tempdir_in(".")?;
    let runtime = Runtime::new()?;
    let all = [
        publishing(&runtime, folder.path())?,
        reading(&runtime, folder.path())?,
        idle(&runtime, folder.path())?,
    ];
    Ok(all.into_iter().all(|kept| kept))
}

/// Many publishers, and one alone.
fn publishing(runtime: &Runtime, folder: &Path) -> Done<bool> {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (own, path) = (Arc::clone(&counts), folder.join("ours.redb"));
    let store = RedbStore::with_backend(move || {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let backend = FileBackend::new(file.unwrap()).unwrap();
        Counted(backend, Arc::clone(&own))
    })?;
    let store = Arc::new(store);
    let orders = Durable::new(Shared(Arc::clone(&store)));
    let bare = Database::create(folder.join("bare.redb"))?;
    let syncs = bare_syncs(folder)?;
    let value = vec![b'x'; 1022];
    let (mut next, mut many, mut single) = (0, Vec::new(), Vec::new());
    let (mut many_waits, mut single_waits) = (Vec::new(), Vec::new());
    let (mut rates, before) = ((0.0, 0.0), (store.stats(), counts_of(&counts)));
    for _ in 0..ROUNDS {
        thread::sleep(PAUSE);
        let commits = store.stats().commits;
        let (ours, waits) = publish(runtime, &orders, PUBLISHERS, GROUPS)?;
        let commits = store.stats().commits - commits;
        many_waits.extend(waits);
        thread::sleep(PAUSE);
        let alone = insert(&bare, &mut next, GROUPS, PUBLISHERS, &value)?;
        many.push(alone.as_secs_f64() / ours.as_secs_f64());
        rates = (
            (PUBLISHERS * GROUPS) as f64 / ours.as_secs_f64(),
            commits as f64 / ours.as_secs_f64(),
        );
        thread::sleep(PAUSE);
        let (ours, waits) = publish(runtime, &orders, 1, SINGLES)?;
        single_waits.extend(waits);
        thread::sleep(PAUSE);
        let alone = insert(&bare, &mut next, SINGLES, 1, &value)?;
        single.push(alone.as_secs_f64() / ours.as_secs_f64());
    }
    let stats = store.stats();
    let (commits, after) = (stats.commits - before.0.commits, counts_of(&counts));
    let (synced, grown) = (after.0 - before.1.0, after.1 - before.1.1);
    say(format_args!(
        "64 publishers of 1 KiB: {:.0} messages a second in {:.0} commits a second",
        rates.0, rates.1
    ));
    let bound = 2.0 + 3.0 * percentile(syncs, 99);
    Ok([
        least("64 publishers, of redb alone in groups of 64", median(many), 0.8),
        least("one publisher, of redb alone in single commits", median(single), 0.7),
        most("syncs a commit", (synced - grown) as f64 / commits as f64, 1.0),
        {
            say(format_args!("({commits} commits, {synced} syncs; the file has grown {grown} times, with a sync each)"));
            most("p99 of 64 publishers, in ms", percentile(many_waits, 99), bound)
        },
        most("p99 of one publisher, in ms", percentile(single_waits, 99), bound),
    ]
    .into_iter()
    .all(|kept| kept))
}

/// A store that the bench looks at, too.
struct Shared(Arc<RedbStore>);

impl antiphon_tokio::durable::Store for Shared {
    fn durability(&self) -> antiphon_tokio::durable::Durability {
        self.0.durability()
    }

    fn submit(
        &self,
        command: antiphon_tokio::durable::Command,
        done: antiphon_tokio::durable::Completer,
    ) {
        self.0.submit(command, done);
    }
}

fn counts_of(counts: &[AtomicU64; 2]) -> (u64, u64) {
    (
        counts[0].load(Ordering::Relaxed),
        counts[1].load(Ordering::Relaxed),
    )
}

/// Each publisher publishes the next message when the one before is stored. How long all took, and each in ms.
fn publish(
    runtime: &Runtime,
    orders: &Durable,
    publishers: usize,
    each: usize,
) -> Done<(Duration, Vec<f64>)> {
    let text = "x".repeat(1022);
    let began = Instant::now();
    let tasks: Vec<_> = (0..publishers)
        .map(|_| {
            let (orders, text) = (orders.clone(), text.clone());
            runtime.spawn(async move {
                let mut waits = Vec::with_capacity(each);
                for _ in 0..each {
                    let began = Instant::now();
                    let stored = orders.publish("orders", &text).await;
                    stored.map_err(|error| error.to_string())?;
                    waits.push(millis(began.elapsed()));
                }
                Ok::<_, String>(waits)
            })
        })
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(runtime.block_on(task)??);
    }
    Ok((began.elapsed(), waits))
}

/// Redb alone.
fn insert(
    bare: &Database,
    next: &mut u64,
    commits: usize,
    each: usize,
    value: &[u8],
) -> Done<Duration> {
    let began = Instant::now();
    for _ in 0..commits {
        let write = bare.begin_write()?;
        let mut table = write.open_table(TABLE)?;
        for _ in 0..each {
            *next += 1;
            table.insert(*next, value)?;
        }
        drop(table);
        write.commit()?;
    }
    Ok(began.elapsed())
}

/// How long a write of 4 KiB and its sync take, in ms.
fn bare_syncs(folder: &Path) -> Done<Vec<f64>> {
    let mut file = File::create(folder.join("synced"))?;
    file.set_len(1 << 20)?;
    file.sync_all()?;
    let page = [7; 4096];
    let mut waits = Vec::new();
    for i in 0..500 {
        let began = Instant::now();
        file.seek(SeekFrom::Start(i % 256 * 4096))?;
        file.write_all(&page)?;
        file.sync_data()?;
        waits.push(millis(began.elapsed()));
    }
    Ok(waits)
}

/// Many stored messages to a consumer, beside reading them and writing the same bytes.
fn reading(runtime: &Runtime, folder: &Path) -> Done<bool> {
    let (ours, alone) = (folder.join("read.redb"), folder.join("bare_read.redb"));
    let orders = served(RedbStore::open(ours)?);
    publish(runtime, &orders, 500, STORED / 500)?;
    let bare = Database::create(alone)?;
    insert(&bare, &mut 0, STORED / 1000, 1000, &[b'x'; 1024])?;
    let url = serve(runtime, &orders)?;
    let mut ratios = Vec::new();
    let mut held = 0;
    for round in 0..3 {
        let before = counting::held();
        let began = Instant::now();
        let mut consumer = Consumer::subscribe(&url, &format!("c{round}"), "orders")?;
        let mut bytes = 0;
        for _ in 0..STORED {
            bytes += consumer.line()?.len();
        }
        let ours = began.elapsed();
        held = counting::held() - before;
        drop(consumer);
        thread::sleep(PAUSE);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let reader = thread::spawn(move || -> std::io::Result<usize> {
            let mut lines = BufReader::new(listener.accept()?.0);
            let (mut line, mut count) = (String::new(), 0);
            while lines.read_line(&mut line)? > 0 {
                count += 1;
                line.clear();
            }
            Ok(count)
        });
        let began = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        let mut line = vec![b'y'; bytes / STORED];
        if let Some(last) = line.last_mut() {
            *last = b'\n';
        }
        let (mut output, mut sum) = (Vec::new(), 0);
        for entry in bare.begin_read()?.open_table(TABLE)?.iter()? {
            sum += entry?
                .1
                .value()
                .iter()
                .map(|byte| u64::from(*byte))
                .sum::<u64>();
            output.extend_from_slice(&line);
            if output.len() > 64 << 10 {
                stream.write_all(&output)?;
                output.clear();
            }
        }
        stream.write_all(&output)?;
        drop(stream);
        let read = reader.join().map_err(|_| "the reader panicked")??;
        assert_eq!((read, sum), (STORED, STORED as u64 * 1024 * 120));
        let alone = began.elapsed();
        ratios.push(ours.as_secs_f64() / alone.as_secs_f64());
        say(format_args!(
            "(read in {:.0} ms, alone in {:.0} ms)",
            millis(ours),
            millis(alone)
        ));
    }
    say(format_args!(
        "(while one is read to, {held} bytes are held that were not before)"
    ));
    Ok(most(
        "reading 100 000 messages, of redb alone and a socket",
        median(ratios),
        2.0,
    ))
}

/// What a subscription holds that has nothing to do.
fn idle(runtime: &Runtime, folder: &Path) -> Done<bool> {
    let orders = served(RedbStore::open(folder.join("idle.redb"))?);
    let url = serve(runtime, &orders)?;
    let mut consumer = Consumer::subscribe(&url, "first", "topic")?;
    let before = counting::held();
    for i in 0..IDLE {
        consumer.ask("subscribe", &format!(r#"["order-processor-{i}","topic"]"#))?;
    }
    // The thread of the store lets go of what it has done.
    thread::sleep(PAUSE);
    let each = (counting::held() - before) as f64 / IDLE as f64;
    Ok(most("bytes of an idle subscription", each, 1024.0))
}

fn served(store: RedbStore) -> Durable {
    let mut config = DurableConfig::new();
    config.settings.start = Start::EarliestRetained;
    // It is read to the end before it acknowledges.
    (config.settings.window, config.settings.ack_mode) = (65_536, AckMode::Cumulative);
    (config.settings.ack_timeout, config.settings.max_read_bytes) = (None, 256 << 10);
    Durable::with(store, config)
}

fn serve(runtime: &Runtime, orders: &Durable) -> Done<String> {
    let _inside = runtime.enter();
    let server = runtime.block_on(TcpServer::bind("127.0.0.1:0"))?;
    let address = server.local_addr().to_string();
    let router = Router::new().durable(orders);
    // It runs until the program ends.
    std::mem::forget(server.start(Config::new(), router.into_make_service()));
    Ok(address)
}

/// A consumer that reads lines, and acknowledges when half the window is full.
struct Consumer {
    name: String,
    lines: BufReader<TcpStream>,
    text: String,
    read: usize,
}

impl Consumer {
    fn subscribe(address: &str, name: &str, topic: &str) -> Done<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut own = Self {
            name: name.into(),
            lines: BufReader::with_capacity(64 << 10, stream),
            text: String::new(),
            read: 0,
        };
        own.ask("subscribe", &format!(r#"["{name}","{topic}"]"#))?;
        Ok(own)
    }

    fn say(&mut self, method: &str, params: &str) -> Done {
        let call = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"rpc.{method}.persistent\",\"params\":{params},\"id\":1}}\n"
        );
        Ok(self.lines.get_mut().write_all(call.as_bytes())?)
    }

    fn ask(&mut self, method: &str, params: &str) -> Done {
        self.say(method, params)?;
        self.text.clear();
        self.lines.read_line(&mut self.text)?;
        match self.text.contains(r#""result":"#) {
            true => Ok(()),
            false => Err(self.text.clone().into()),
        }
    }

    /// The next message.
    fn line(&mut self) -> Done<&str> {
        self.text.clear();
        self.lines.read_line(&mut self.text)?;
        if self.text.starts_with(r#"{"jsonrpc":"2.0","result""#) {
            self.text.clear();
            self.lines.read_line(&mut self.text)?;
        }
        self.read += 1;
        if self.read.is_multiple_of(25_000) {
            let params = format!(r#"["{}",{}]"#, self.name, self.read);
            self.say("acknowledge", &params)?;
        }
        Ok(&self.text)
    }
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * percent / 100)
        .copied()
        .unwrap_or(f64::NAN)
}

fn median(values: Vec<f64>) -> f64 {
    percentile(values, 50)
}

fn least(what: &str, value: f64, bound: f64) -> bool {
    say(format_args!("{what}: {value:.2}, at least {bound:.2}"));
    value >= bound
}

fn most(what: &str, value: f64, bound: f64) -> bool {
    say(format_args!("{what}: {value:.2}, at most {bound:.2}"));
    value <= bound
}

fn say(line: impl std::fmt::Display) {
    drop(writeln!(stdout(), "{line}"));
}

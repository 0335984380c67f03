//! Real servers, started by a test. Without the program the tests say so and are skipped.

use std::env;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::durable::{Command as Asked, Completer, Completion, Store, StoreError};
use tempfile::TempDir;

use crate::{NatsOptions, NatsStore};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The programs to test with: that of `NATS_SERVER` alone, those that `.ci/peers` has installed, or that of the system.
pub(super) fn programs() -> Vec<PathBuf> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/cache/peers/nats");
    let installed = ["root/usr/sbin", "newer/bin"]
        .map(|folder| format!("{installed}/{folder}/nats-server").into());
    let runs = |program: &PathBuf| {
        let mut run = Command::new(program);
        let run = run.arg("--version").stdout(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let mut programs = match env::var_os("NATS_SERVER") {
        Some(program) => vec![program.into()],
        None => installed.into_iter().filter(runs).collect(),
    };
    if programs.is_empty() {
        programs.push("nats-server".into());
    }
    programs.retain(runs);
    if programs.is_empty() {
        eprintln!("SKIPPED: there is no nats-server: run .ci/peers");
    }
    programs
}

/// A server of one or more.
pub(super) struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    pub(super) port: u16,
    folder: TempDir,
    child: Option<Child>,
}

/// A port that stays free while its server is away: the system gives those of this range to nobody.
fn free_port() -> u16 {
    static LAST: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = LAST.fetch_add(1, Ordering::Relaxed);
        let start = process::id().wrapping_mul(97) as u16;
        let port = 10_000 + start.wrapping_add(step) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    pub(super) fn start(program: &Path) -> Self {
        let mut server = Self::new(program, Vec::new());
        server.restart();
        server
    }

    /// Servers that make one cluster.
    pub(super) fn cluster(program: &Path, size: usize) -> Vec<Self> {
        let ports: Vec<u16> = (0..size).map(|_| free_port()).collect();
        let routes: Vec<_> = ports
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        let arguments = |index: usize| {
            let own = [
                "--cluster_name",
                "c",
                "--cluster",
                &routes[index],
                "--routes",
            ];
            let mut own: Vec<String> = own.map(String::from).into();
            own.extend([routes.join(","), "-n".into(), format!("s{index}")]);
            own
        };
        let mut servers: Vec<_> = (0..size)
            .map(|index| Self::new(program, arguments(index)))
            .collect();
        servers.iter_mut().for_each(Self::restart);
        servers
    }

    fn new(program: &Path, arguments: Vec<String>) -> Self {
        Self {
            program: program.to_path_buf(),
            arguments,
            port: free_port(),
            folder: tempfile::tempdir().unwrap(),
            child: None,
        }
    }

    /// Starts it, again on the same port and with what it has stored.
    pub(super) fn restart(&mut self) {
        let port = self.port.to_string();
        let child = Command::new(&self.program)
            .args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"])
            .arg(self.folder.path())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < until, "the server does not listen");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(super) fn store(&self) -> NatsStore {
        NatsStore::connect(&NatsOptions::new(self.url())).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The answer to one command.
pub(super) fn ask(store: &NatsStore, command: Asked) -> Result<Completion, StoreError> {
    let (sender, answer) = channel();
    let done = Completer::new(move |result| sender.send(result).unwrap());
    store.submit(command, done);
    answer.recv_timeout(PATIENCE).unwrap()
}

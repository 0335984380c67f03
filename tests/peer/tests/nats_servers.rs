//! Two servers of the peer over one NATS: what is published at one reaches who has subscribed at the other.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use antiphon_tokio::{Client, Config, connect};
use tokio::runtime::Builder;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of NATS; `None` if there is no program.
fn nats(folder: &std::path::Path) -> Option<(Running, u16)> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/cache/peers/nats");
    let newer = format!("{installed}/newer/bin/nats-server");
    // The system gives ports of this range to nobody who does not ask for them.
    let port = (0..100).map(|step| 9_000 + (std::process::id() as u16 + step) % 900);
    let port = port
        .into_iter()
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())?;
    let start = |program: &str| {
        let mut command = Command::new(program);
        command
            .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
            .arg(folder);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
    };
    let running = Running(["nats-server", &newer].into_iter().find_map(start)?);
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the server does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    Some((running, port))
}

fn peer(store: &str) -> (Running, String) {
    use std::io::{BufRead, BufReader};
    let mut peer = Command::new(env!("CARGO_BIN_EXE_antiphon-peer"))
        .args(["--layers", "--store", store, "server", "tcp://127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(peer.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.strip_prefix("listening ").expect("it listens");
    (Running(peer), address.trim().to_owned())
}

// PER-04 PUB-01
#[test]
fn topics_of_two_servers_over_nats_are_the_topics_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_nats, port)) = nats(folder.path()) else {
        eprintln!("SKIPPED: there is no nats-server: run .ci/peers");
        return;
    };
    let store = format!("nats://127.0.0.1:{port}");
    let ((_one, one), (_two, two)) = (peer(&store), peer(&store));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let at =
            async |address: &str| -> Client { connect(address, Config::new(), ()).await.unwrap() };
        let (one, two) = (at(&one).await, at(&two).await);
        let mut orders = two.durable::<String>("s", "orders").await.unwrap();
        let mut prices = two.topic::<u32>("stock.*").await.unwrap();
        let sequence: u64 = one
            .call("publish_durable", &("orders", "tea"))
            .await
            .unwrap();
        let receivers: usize = one.call("publish", &("stock.tea", 3)).await.unwrap();
        assert_eq!((sequence, receivers), (1, 0), "none at this server");
        let order = timeout(PATIENCE, orders.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!((order.sequence, &*order.data), (1, "tea"));
        order.ack().await.unwrap();
        let price = timeout(PATIENCE, prices.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!((&*price.topic, price.data), ("stock.tea", 3));
    });
}

#[test]
fn a_server_of_nats_that_does_not_answer_is_named() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let store = format!("nats://127.0.0.1:{port}");
    let peer = Command::new(env!("CARGO_BIN_EXE_antiphon-peer"))
        .args(["--layers", "--store", &store, "server", "tcp://127.0.0.1:0"])
        .output()
        .unwrap();
    let text = String::from_utf8(peer.stderr).unwrap();
    assert!(
        !peer.status.success() && text.contains(&format!("{store}: ")),
        "{text}"
    );
}

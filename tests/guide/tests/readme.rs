//! The calculator of README, by its trait and by the router, as it stands there: over TCP, WebSocket,
//! HTTP and standard input and output, on tokio, smol and threads. Only what it runs on differs.

use std::env;
use std::process::Command;
use std::time::Duration;

/// The environment variable that tells this program that it is the child that serves.
const SERVES: &str = "README_SERVES";
/// How many conversations there are: three runtimes, two programs, four transports.
const CASES: usize = 24;

/// The parts of README that `build.rs` has cut out, with the names that they import.
macro_rules! text_of_readme {
    ($adapter:ident, $service:literal, $by_hand:literal) => {
        use std::io::{self, Write};

        use $adapter::{NotificationOk, RpcError, service};

        include!(concat!(env!("OUT_DIR"), "/", $service));

        mod by_hand {
            use std::io::{self, Write};

            use $adapter::{OwnedError, Router};

            include!(concat!(env!("OUT_DIR"), "/", $by_hand));
        }

        /// What to serve, by its name.
        fn router(name: &str) -> $adapter::Router {
            match name {
                "trait" => $adapter::Router::new().service(Mine.into_service()),
                _ => by_hand::router(),
            }
        }
    };
}

/// Calls `add` and `divide` as README does, and with the trait also has `add` fail. Returns 1, the number of
/// conversations. `$end` waits for a call.
macro_rules! ask {
    ($adapter:ident, $name:expr, $client:expr, $($end:tt)+) => {{
        let client = $client;
        if $name == "trait" {
            let calc = CalculatorClient::new(client);
            assert_eq!(calc.add(10.0, 5.0)$($end)+.unwrap(), 15.0);
            match calc.divide(1.0, 0.0)$($end)+ {
                Err($adapter::CallError::Remote(CalcError::DivisionByZero)) => {}
                other => panic!("{other:?}"),
            }
            match calc.add(1e10, 1.0)$($end)+ {
                Err($adapter::CallError::Remote(CalcError::OutOfRange { limit })) => {
                    assert_eq!(limit, 1e9);
                }
                other => panic!("{other:?}"),
            }
        } else {
            let sum: f64 = client.call("add", &(10, 5))$($end)+.unwrap();
            assert_eq!(sum, 15.0);
            let zero = client.call::<f64>("divide", &(1, 0))$($end)+.unwrap_err();
            assert_eq!(zero.to_string(), "Division by zero (-32602)");
        }
        println!("{} {}", stringify!($adapter), $name);
        1
    }};
}

/// All transports on one runtime of tasks.
macro_rules! on_tasks {
    ($adapter:ident) => {
        text_of_readme!($adapter, "service.rs", "by_hand.rs");

        use $adapter::websocket::WebSocketConfig;
        use $adapter::{Config, ConnectionConfig, TcpServer, connect, spawn};

        pub(crate) async fn serve(name: &str) {
            $adapter::serve_stdio(Config::new(), router(name)).await.unwrap();
        }

        pub(crate) async fn all() -> usize {
            let mut ran = 0;
            for name in ["trait", "by hand"] {
                let bind = || TcpServer::bind("127.0.0.1:0");
                let server = bind().await.unwrap();
                let url = format!("tcp://{}", server.local_addr());
                let _running = server.start(Config::new(), router(name).into_make_service());
                let client = connect(url, Config::new(), ()).await.unwrap();
                ran += ask!($adapter, name, &client, .await);

                let server = bind().await.unwrap();
                let url = format!("ws://{}/", server.local_addr());
                let config = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
                let _running = server.start(config, router(name).into_make_service());
                let client = connect(url, Config::new(), ()).await.unwrap();
                ran += ask!($adapter, name, &client, .await);

                let server = bind().await.unwrap();
                let url = format!("http://{}/", server.local_addr());
                let _running = server.start_http(Config::new(), router(name));
                let client = connect(url, Config::new(), ()).await.unwrap();
                ran += ask!($adapter, name, &client, .await);

                let command = super::child(stringify!($adapter), name);
                let child = spawn(command, Config::new(), ()).unwrap();
                ran += ask!($adapter, name, child.peer(), .await);
                child.close(super::PATIENCE).await.unwrap();
            }
            ran
        }
    };
}

/// How long a child may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// This program, as a child that serves.
fn child(adapter: &str, name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(SERVES, format!("{adapter} {name}"));
    command
}

mod on_tokio {
    on_tasks!(antiphon_tokio);
}

mod on_smol {
    on_tasks!(antiphon_smol);
}

mod on_threads {
    text_of_readme!(
        antiphon_blocking,
        "service_on_threads.rs",
        "by_hand_on_threads.rs"
    );

    use antiphon_blocking::websocket::WebSocketConfig;
    use antiphon_blocking::{Child, Config, ConnectionConfig, TcpServer, connect};

    pub(crate) fn serve(name: &str) {
        antiphon_blocking::serve_stdio(Config::new(), router(name)).unwrap();
    }

    pub(crate) fn all() -> usize {
        let mut ran = 0;
        for name in ["trait", "by hand"] {
            let bind = || TcpServer::bind("127.0.0.1:0").unwrap();
            let server = bind();
            let url = format!("tcp://{}", server.local_addr().unwrap());
            let _running = server
                .start(Config::new(), router(name).into_make_service())
                .unwrap();
            let client = connect(url, Config::new(), ()).unwrap();
            ran += ask!(antiphon_blocking, name, &client, .wait());

            let server = bind();
            let url = format!("ws://{}/", server.local_addr().unwrap());
            let config =
                ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
            let _running = server
                .start(config, router(name).into_make_service())
                .unwrap();
            let client = connect(url, Config::new(), ()).unwrap();
            ran += ask!(antiphon_blocking, name, &client, .wait());

            let server = bind();
            let url = format!("http://{}/", server.local_addr().unwrap());
            let served = router(name);
            let _running = server
                .start_http(Config::new(), move |_| served.clone())
                .unwrap();
            let client = connect(url, Config::new(), ()).unwrap();
            ran += ask!(antiphon_blocking, name, &client, .wait());

            let command = super::child("antiphon_blocking", name);
            let child = Child::spawn(command, Config::new(), ()).unwrap();
            ran += ask!(antiphon_blocking, name, child.peer(), .wait());
            child.close(super::PATIENCE).unwrap();
        }
        ran
    }
}

fn main() {
    let tokio = || tokio::runtime::Runtime::new().unwrap();
    if let Ok(serves) = env::var(SERVES) {
        let (adapter, name) = serves.split_once(' ').unwrap();
        return match adapter {
            "antiphon_tokio" => tokio().block_on(on_tokio::serve(name)),
            "antiphon_smol" => smol::block_on(on_smol::serve(name)),
            _ => on_threads::serve(name),
        };
    }
    let ran =
        tokio().block_on(on_tokio::all()) + smol::block_on(on_smol::all()) + on_threads::all();
    assert_eq!(ran, CASES, "conversations ran");
    println!("test result: ok. {ran} passed; 0 failed");
}

//! Other JSON-RPC software, each used as its own documentation shows, on the same runtime.
//!
//! Each of these clients reads its connection in a task of its own. One call in flight is made by the thread that
//! waits, as the bare transports make it; 64 are made by a task on the worker, beside the client's own task (over HTTP by
//! the waiting thread, for there the bare client's connections have tasks, too). If the waiting thread made the 64, each
//! answer would wake it, which costs some of this software more than all else it does; and the figures that the set-up is
//! checked against were measured in this way.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use async_lsp::router::Router;
use async_lsp::{ClientSocket, MainLoop, ServerSocket};
use futures_util::future::try_join_all;
use jsonrpsee::core::client::ClientT;
use jsonrpsee::core::params::BatchRequestBuilder;
use jsonrpsee::http_client::{HttpClient, HttpClientBuilder};
use jsonrpsee::rpc_params;
use jsonrpsee::server::{RpcModule, ServerBuilder, ServerHandle};
use jsonrpsee::ws_client::{WsClient, WsClientBuilder};
use karyon_jsonrpc::client::{Client, ClientBuilder};
use karyon_jsonrpc::error::RPCError;
use karyon_jsonrpc::rpc_impl;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::floors::DUPLEX_BYTES;
use crate::row::{self, BATCH, Lane, MANY, Mode, Outcome, Row, WORD, check, request, share};
use crate::runtime::Runtime;

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    row::add(
        rows,
        wanted,
        "jsonrpsee WebSocket",
        "bare tokio WebSocket",
        jsonrpsee_ws,
    )?;
    row::add(
        rows,
        wanted,
        "jsonrpsee HTTP",
        "bare hyper HTTP",
        jsonrpsee_http,
    )?;
    row::add(rows, wanted, "karyon_jsonrpc TCP", "bare tokio TCP", karyon)?;
    row::add(rows, wanted, "async-lsp TCP", "bare tokio TCP", || {
        let runtime = Runtime::tokio()?;
        let (near, far) = runtime.block_on(tcp_pair())?;
        Ok(async_lsp(runtime, near.into_split(), far.into_split()))
    })?;
    row::add(
        rows,
        wanted,
        "async-lsp duplex",
        "bare tokio duplex",
        || {
            let (near, far) = tokio::io::duplex(DUPLEX_BYTES);
            Ok(async_lsp(
                Runtime::tokio()?,
                tokio::io::split(near),
                tokio::io::split(far),
            ))
        },
    )?;
    row::add(
        rows,
        wanted,
        "tower-lsp-server TCP, raw client",
        "bare tokio TCP",
        tower_lsp,
    )?;
    row::add(
        rows,
        wanted,
        "lsp-server TCP",
        "bare blocking TCP",
        lsp_server,
    )
}

/// Any error, boxed by `?`.
type Failed = Box<dyn Error>;
/// Any error that a task may return.
pub(crate) type TaskFailed = Box<dyn Error + Send + Sync>;

/// Checks an answer.
pub(crate) fn checked(word: &str) -> Result<(), TaskFailed> {
    check(word).map_err(|failed| failed.to_string().into())
}

/// Who makes the calls.
#[derive(Clone, Copy)]
enum Caller {
    WaitingThread,
    Task,
}

impl Caller {
    fn of(mode: Mode) -> Self {
        match mode {
            Mode::One | Mode::Batch => Self::WaitingThread,
            Mode::Many | Mode::Crowd => Self::Task,
        }
    }
}

/// Does `round` as often as `rounds` says, and adds how long each took.
fn run_rounds<F>(
    runtime: &Runtime,
    caller: Caller,
    rounds: usize,
    times: &mut Vec<Duration>,
    round: impl Fn() -> F + Send + 'static,
) -> Outcome<()>
where
    F: Future<Output = Result<(), TaskFailed>> + Send,
{
    let all = async move {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let began = Instant::now();
            round().await?;
            times.push(began.elapsed());
        }
        Ok::<_, TaskFailed>(times)
    };
    let taken = match caller {
        Caller::WaitingThread => runtime.block_on(all),
        Caller::Task => runtime.run_task(all)?,
    };
    times.extend(taken.map_err(|failed| -> Failed { failed })?);
    Ok(())
}

/// Runs rounds of `ask`: one, or as many as the mode has at once, or by a crowd of tasks.
pub(crate) fn run<F>(
    runtime: &Runtime,
    mode: Mode,
    rounds: usize,
    times: &mut Vec<Duration>,
    ask: impl Fn() -> F + Clone + Send + 'static,
) -> Outcome<()>
where
    F: Future<Output = Result<(), TaskFailed>> + Send + 'static,
{
    if mode == Mode::Crowd {
        return run_crowd(runtime, rounds, times, ask);
    }
    run_rounds(runtime, Caller::of(mode), rounds, times, move || {
        let all = try_join_all((0..mode.requests()).map(|_| ask()));
        async { all.await.map(drop) }
    })
}

/// Runs [`MANY`] tasks, each of which asks `rounds` times, one after the other.
fn run_crowd<F>(
    runtime: &Runtime,
    rounds: usize,
    times: &mut Vec<Duration>,
    ask: impl Fn() -> F + Clone + Send + 'static,
) -> Outcome<()>
where
    F: Future<Output = Result<(), TaskFailed>> + Send + 'static,
{
    let task = |ask: Box<dyn Fn() -> F + Send>| async move {
        for _ in 0..rounds {
            ask().await?;
        }
        Ok::<_, TaskFailed>(())
    };
    let began = Instant::now();
    let tasks = (0..MANY).map(|_| task(Box::new(ask.clone()))).collect();
    let all = runtime.block_on(runtime.spawn_all(tasks))?;
    let all: Result<(), TaskFailed> = all.into_iter().collect();
    all.map_err(|failed| -> Failed { failed })?;
    share(began, rounds, times);
    Ok(())
}

struct Jsonrpsee<C> {
    runtime: Runtime,
    client: Arc<C>,
    is_http: bool,
    _server: ServerHandle,
}

async fn jsonrpsee_server() -> Result<(String, ServerHandle), Failed> {
    let mut module = RpcModule::new(());
    module.register_method("echo", |params, (), _| {
        params.one::<&str>().map(String::from)
    })?;
    let server = ServerBuilder::default().build("127.0.0.1:0").await?;
    let address = server.local_addr()?.to_string();
    Ok((address, server.start(module)))
}

fn jsonrpsee_ws() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (client, server): (WsClient, _) = runtime.block_on(async {
        let (address, server) = jsonrpsee_server().await?;
        let client = WsClientBuilder::default()
            .build(format!("ws://{address}"))
            .await?;
        Ok::<_, Failed>((client, server))
    })?;
    Ok(Box::new(Jsonrpsee {
        runtime,
        client: Arc::new(client),
        is_http: false,
        _server: server,
    }))
}

fn jsonrpsee_http() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (client, server): (HttpClient, _) = runtime.block_on(async {
        let (address, server) = jsonrpsee_server().await?;
        let client = HttpClientBuilder::default().build(format!("http://{address}"))?;
        Ok::<_, Failed>((client, server))
    })?;
    Ok(Box::new(Jsonrpsee {
        runtime,
        client: Arc::new(client),
        is_http: true,
        _server: server,
    }))
}

impl<C: ClientT + Send + Sync + 'static> Lane for Jsonrpsee<C> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let caller = if self.is_http {
            Caller::WaitingThread
        } else {
            Caller::of(mode)
        };
        let client = self.client.clone();
        if mode == Mode::Crowd {
            return run_crowd(&self.runtime, rounds, times, move || {
                let client = client.clone();
                async move {
                    let word: String = client.request("echo", rpc_params![WORD]).await?;
                    checked(&word)
                }
            });
        }
        run_rounds(&self.runtime, caller, rounds, times, move || {
            let client = client.clone();
            async move {
                let ask = || async {
                    let word: String = client.request("echo", rpc_params![WORD]).await?;
                    checked(&word)
                };
                match mode {
                    Mode::One => ask().await?,
                    Mode::Many | Mode::Crowd => {
                        drop(try_join_all((0..MANY).map(|_| ask())).await?);
                    }
                    Mode::Batch => {
                        let mut batch = BatchRequestBuilder::new();
                        for _ in 0..BATCH {
                            batch.insert("echo", rpc_params![WORD])?;
                        }
                        let answers = client.batch_request::<String>(batch).await?;
                        let words = answers.into_ok().map_err(|_| "an answer was an error")?;
                        words.into_iter().try_for_each(|word| checked(&word))?;
                    }
                }
                Ok(())
            }
        })
    }
}

struct Karyon {
    runtime: Runtime,
    client: Arc<Client>,
}

struct KaryonEcho;

#[rpc_impl]
impl KaryonEcho {
    async fn echo(&self, params: Value) -> Result<Value, RPCError> {
        let (word,): (String,) = serde_json::from_value(params)?;
        Ok(Value::String(word))
    }
}

fn karyon() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let port = free_port()?;
    let url = format!("tcp://127.0.0.1:{port}");
    let client = runtime.block_on(async {
        let server = karyon_jsonrpc::server::ServerBuilder::new(url.as_str())?;
        let server = server.service(Arc::new(KaryonEcho)).build().await?;
        server.start();
        Ok::<_, Failed>(ClientBuilder::new(url.as_str())?.build().await?)
    })?;
    Ok(Box::new(Karyon { runtime, client }))
}

impl Lane for Karyon {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let client = self.client.clone();
        run(&self.runtime, mode, rounds, times, move || {
            let client = client.clone();
            async move {
                let word: String = client.call("KaryonEcho.echo", (WORD.to_string(),)).await?;
                checked(&word)
            }
        })
    }

    fn can(&self, mode: Mode) -> bool {
        mode != Mode::Batch
    }
}

/// A port that nothing listens at, for servers that do not tell their port.
pub(crate) fn free_port() -> Outcome<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

pub(crate) async fn tcp_pair() -> Outcome<(TcpStream, TcpStream)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let (far, _) = listener.accept().await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// The request, as async-lsp defines requests.
enum EchoRequest {}

impl lsp_types::request::Request for EchoRequest {
    type Params = (String,);
    type Result = String;
    const METHOD: &'static str = "echo";
}

struct AsyncLsp {
    runtime: Runtime,
    server: ServerSocket,
    /// It is kept, for the server's loop waits for events from it, too.
    _client: ClientSocket,
}

fn async_lsp<R, W>(runtime: Runtime, near: (R, W), far: (R, W)) -> Box<dyn Lane>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (serving, client) = MainLoop::new_server(|_| {
        let mut router = Router::new(());
        router.request::<EchoRequest, _>(|(), (word,)| async { Ok(word) });
        router
    });
    let (asking, server) = MainLoop::new_client(|_| {
        let mut router = Router::new(());
        router.unhandled_notification(|(), _| ControlFlow::Continue(()));
        router
    });
    let (read, write) = far;
    runtime.spawn(async move {
        drop(
            serving
                .run_buffered(read.compat(), write.compat_write())
                .await,
        );
    });
    let (read, write) = near;
    runtime.spawn(async move {
        drop(
            asking
                .run_buffered(read.compat(), write.compat_write())
                .await,
        );
    });
    Box::new(AsyncLsp {
        runtime,
        server,
        _client: client,
    })
}

impl Lane for AsyncLsp {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let server = self.server.clone();
        run(&self.runtime, mode, rounds, times, move || {
            let server = server.clone();
            async move {
                let word = server.request::<EchoRequest>((WORD.into(),)).await?;
                checked(&word)
            }
        })
    }

    fn can(&self, mode: Mode) -> bool {
        mode != Mode::Batch
    }
}

struct TowerLsp {
    runtime: Runtime,
    near: TcpStream,
}

struct TowerEcho;

impl tower_lsp_server::LanguageServer for TowerEcho {
    async fn initialize(
        &self,
        _: tower_lsp_server::ls_types::InitializeParams,
    ) -> tower_lsp_server::jsonrpc::Result<tower_lsp_server::ls_types::InitializeResult> {
        Ok(tower_lsp_server::ls_types::InitializeResult::default())
    }

    async fn shutdown(&self) -> tower_lsp_server::jsonrpc::Result<()> {
        Ok(())
    }
}

impl TowerEcho {
    async fn echo(&self, (word,): (String,)) -> tower_lsp_server::jsonrpc::Result<String> {
        Ok(word)
    }
}

fn framed(text: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

fn tower_lsp() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (near, far) = runtime.block_on(tcp_pair())?;
    let service = tower_lsp_server::LspService::build(|_| TowerEcho);
    let (service, socket) = service.custom_method("echo", TowerEcho::echo).finish();
    let (read, write) = far.into_split();
    let server = tower_lsp_server::Server::new(read, write, socket);
    runtime.spawn(async move { server.concurrency_level(MANY).serve(service).await });
    let mut lane = TowerLsp { runtime, near };
    let text = r#"{"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{}},"id":1}"#;
    lane.ask(&framed(text), r#""id":1"#, 1)?;
    Ok(Box::new(lane))
}

impl TowerLsp {
    /// Sends `text` and reads until `wanted` has come `times` times.
    fn ask(&mut self, text: &str, wanted: &str, times: usize) -> Outcome<()> {
        let near = &mut self.near;
        self.runtime.block_on(async {
            near.write_all(text.as_bytes()).await?;
            let mut back = Vec::new();
            let mut found = 0;
            let mut looked = 0;
            while found < times {
                if near.read_buf(&mut back).await? == 0 {
                    return Err("the echo ended".into());
                }
                let text = std::str::from_utf8(&back[looked..])?;
                for (at, wanted) in text.match_indices(wanted) {
                    found += 1;
                    looked = looked.max(at + wanted.len());
                }
                looked = if found == 0 { 0 } else { looked };
            }
            Ok(())
        })
    }
}

impl Lane for TowerLsp {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let requests = mode.requests();
        let text: String = (10..10 + requests).map(|id| framed(&request(id))).collect();
        let wanted = format!(r#""result":"{WORD}""#);
        for _ in 0..rounds {
            let began = Instant::now();
            self.ask(&text, &wanted, requests)?;
            times.push(began.elapsed());
        }
        Ok(())
    }

    fn can(&self, mode: Mode) -> bool {
        !matches!(mode, Mode::Batch | Mode::Crowd)
    }
}

struct LspServer {
    connection: lsp_server::Connection,
}

fn lsp_server() -> Outcome<Box<dyn Lane>> {
    use lsp_server::{Connection, Message, Response};
    let port = free_port()?;
    let server = thread::Builder::new().spawn(move || {
        let Ok((far, _threads)) = Connection::listen(("127.0.0.1", port)) else {
            return;
        };
        for message in &far.receiver {
            if let Message::Request(request) = message {
                let (word,): (String,) = serde_json::from_value(request.params).unwrap_or_default();
                let answer = Response::new_ok(request.id, word);
                if far.sender.send(answer.into()).is_err() {
                    return;
                }
            }
        }
    })?;
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        if let Ok((connection, _threads)) = Connection::connect(("127.0.0.1", port)) {
            return Ok(Box::new(LspServer { connection }));
        }
        if server.is_finished() || Instant::now() > deadline {
            return Err("it does not listen".into());
        }
        thread::yield_now();
    }
}

impl Lane for LspServer {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        use lsp_server::{Message, Request, RequestId};
        for _ in 0..rounds {
            let began = Instant::now();
            for id in 0..mode.requests() {
                let id = RequestId::from(i32::try_from(id)?);
                let request = Request::new(id, "echo".into(), (WORD,));
                self.connection.sender.send(request.into())?;
            }
            for _ in 0..mode.requests() {
                match self.connection.receiver.recv()? {
                    Message::Response(response) => {
                        let result = response.response_result.map_err(|error| error.message)?;
                        check(result.as_str().unwrap_or_default())?;
                    }
                    _ => return Err("an answer was none".into()),
                }
            }
            times.push(began.elapsed());
        }
        Ok(())
    }

    fn can(&self, mode: Mode) -> bool {
        !matches!(mode, Mode::Batch | Mode::Crowd)
    }
}

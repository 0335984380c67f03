//! JSON-RPC over a WebSocket, message by message: what a client sends (`→`) and gets (`←`).
//!
//! ```sh
//! cargo run -p antiphon-blocking --example websocket --features websocket
//! ```
//!
//! The server is a service on `antiphon-blocking`. The client is only the codec on a plain socket,
//! so that each message can be printed as it is sent; an ordinary program calls
//! `antiphon_blocking::connect` with a `ws://` URL instead.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use antiphon::session::{Layer as _, LayerEvent};
use antiphon::websocket::CloseCode;
use antiphon::{Config, IdScheme, Instant, OwnedError, OwnedOutcome};
use antiphon_blocking::websocket::WebSocketConfig;
use antiphon_blocking::{
    Answer, ConnectionConfig, Notification, Peer, Request, Running, Service, TcpServer,
};
use antiphon_net::websocket::WebSocket;
use serde::{Deserialize, Serialize};

/// The longest time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct Payment {
    amount: u64,
}

#[derive(Serialize)]
struct Shortage {
    balance: u64,
    required: u64,
}

/// The account of one connection.
struct Account {
    balance: u64,
}

impl Service for Account {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "balance" => Ok(self.balance.into()),
            "pay" => {
                let Payment { amount } = request.params()?;
                if amount > self.balance {
                    let (balance, required) = (self.balance, amount);
                    let error = OwnedError::new(-32001, "Insufficient funds");
                    let shortage = Shortage { balance, required };
                    // Two numbers always have a JSON form, so the error is sent with them.
                    return Err(error.clone().with_data(&shortage).unwrap_or(error));
                }
                self.balance -= amount;
                Ok(self.balance.into())
            }
            _ => Err(request.unknown_method()),
        }
    }

    fn notification(&mut self, peer: &Peer, notification: Notification) {
        if notification.method() != "watch" {
            return;
        }
        // The server calls the client, too. The function that is passed to `then` runs when the
        // answer has come, and sends a notification.
        let asking = peer.clone();
        let asked = peer
            .call("refresh", &("balance",))
            .timeout(PATIENCE)
            .then(move |outcome| {
                let is_done = matches!(&outcome, OwnedOutcome::Ok(done) if done.as_str() == "true");
                let told = asking.notify("refreshed", &(is_done,)).wait();
                if let Err(error) = told {
                    log(format_args!("not told: {error}"));
                }
            })
            .wait();
        if let Err(refused) = asked {
            log(format_args!("not asked: {:?}", refused.error));
        }
    }
}

/// Serves accounts at `/rpc`. The ids of the server's own calls begin with `srv-`.
fn start() -> io::Result<(SocketAddr, Running)> {
    let mut config = Config::new();
    config.dialect.id_scheme = IdScheme::Prefixed("srv-");
    let mut route = WebSocketConfig::server();
    route.web.paths.push("/rpc".into());
    let server = TcpServer::bind("127.0.0.1:0")?;
    let address = server.local_addr()?;
    let running = server.start(ConnectionConfig::from(config).with_websocket(route), |_| {
        Account { balance: 30 }
    })?;
    Ok((address, running))
}

/// The codec on a socket, and the messages so far.
struct Client {
    socket: TcpStream,
    websocket: WebSocket,
    transcript: String,
}

impl Client {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let asked = WebSocketConfig::client(&format!("ws://{address}/rpc"))?;
        let config = Config::new().for_websocket();
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Self {
            socket,
            // The time stands still here, because the socket's own timeout is enough for an
            // example.
            websocket: WebSocket::new(asked.into(), &config, Instant::ZERO)?,
            transcript: String::new(),
        };
        match client.next()? {
            LayerEvent::Opened(_) => Ok(client),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    fn say(&mut self, message: &str) -> io::Result<()> {
        self.transcript += &format!("→ {message}\n");
        let mut frame = Vec::new();
        self.websocket.send(message.as_bytes(), &mut frame);
        self.socket.write_all(&frame)
    }

    fn hear(&mut self) -> io::Result<()> {
        match self.next()? {
            LayerEvent::Message(message) => {
                self.transcript += &format!("← {}\n", message);
                Ok(())
            }
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// Reads until there is an event. The server sends one message at a time and then waits, so no
    /// read contains two events.
    fn next(&mut self) -> io::Result<LayerEvent> {
        loop {
            let mut output = Vec::new();
            self.websocket.take_transmit(&mut output);
            self.socket.write_all(&output)?;
            let mut bytes = [0; 4096];
            let read = self.socket.read(&mut bytes)?;
            if read == 0 {
                self.websocket.handle_eof();
            }
            if let Some(event) = self.websocket.poll_event(&mut &bytes[..read]) {
                return Ok(event);
            }
        }
    }
}

/// Runs the whole conversation, and returns it as text.
fn converse() -> Result<String, Box<dyn Error>> {
    let (address, running) = start()?;
    let mut client = Client::connect(address)?;

    // A request and its answer.
    client.say(r#"{"jsonrpc":"2.0","method":"balance","id":1}"#)?;
    client.hear()?;

    // A batch of two requests and a notification: two answers, in one message.
    client.say(concat!(
        r#"[{"jsonrpc":"2.0","method":"pay","params":{"amount":10},"id":"a"},"#,
        r#"{"jsonrpc":"2.0","method":"paid","params":["a"]},"#,
        r#"{"jsonrpc":"2.0","method":"balance","id":"b"}]"#,
    ))?;
    client.hear()?;

    // An error of the application, with structured data.
    client.say(r#"{"jsonrpc":"2.0","method":"pay","params":{"amount":100},"id":2}"#)?;
    client.hear()?;

    // A notification, which is not answered; but the server sends a call of its own.
    client.say(r#"{"jsonrpc":"2.0","method":"watch","params":["balance"]}"#)?;
    client.hear()?;
    client.say(r#"{"jsonrpc":"2.0","result":true,"id":"srv-1"}"#)?;
    client.hear()?;

    client.websocket.close_with(CloseCode::NORMAL, "");
    client.next()?;
    running.stop();
    Ok(client.transcript)
}

fn main() -> Result<(), Box<dyn Error>> {
    io::stdout().write_all(converse()?.as_bytes())?;
    Ok(())
}

// EXA-08 MSG-22 CLI-13 WSK-02
#[test]
fn the_conversation_goes_as_written() {
    let wanted = concat!(
        "→ {\"jsonrpc\":\"2.0\",\"method\":\"balance\",\"id\":1}\n",
        "← {\"jsonrpc\":\"2.0\",\"result\":30,\"id\":1}\n",
        "→ [{\"jsonrpc\":\"2.0\",\"method\":\"pay\",\"params\":{\"amount\":10},\"id\":\"a\"},",
        "{\"jsonrpc\":\"2.0\",\"method\":\"paid\",\"params\":[\"a\"]},",
        "{\"jsonrpc\":\"2.0\",\"method\":\"balance\",\"id\":\"b\"}]\n",
        "← [{\"jsonrpc\":\"2.0\",\"result\":20,\"id\":\"a\"},",
        "{\"jsonrpc\":\"2.0\",\"result\":20,\"id\":\"b\"}]\n",
        "→ {\"jsonrpc\":\"2.0\",\"method\":\"pay\",\"params\":{\"amount\":100},\"id\":2}\n",
        "← {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32001,\"message\":\"Insufficient funds\",",
        "\"data\":{\"balance\":20,\"required\":100}},\"id\":2}\n",
        "→ {\"jsonrpc\":\"2.0\",\"method\":\"watch\",\"params\":[\"balance\"]}\n",
        "← {\"jsonrpc\":\"2.0\",\"method\":\"refresh\",\"params\":[\"balance\"],\"id\":\"srv-1\"}\n",
        "→ {\"jsonrpc\":\"2.0\",\"result\":true,\"id\":\"srv-1\"}\n",
        "← {\"jsonrpc\":\"2.0\",\"method\":\"refreshed\",\"params\":[true]}\n",
    );
    assert_eq!(converse().unwrap(), wanted);
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

//! rust-analyzer's lsp-server as a client or a server, with its own queue of requests.
//!
//! ```text
//! lsp_server_peer server                  over stdin and stdout
//! lsp_server_peer client POINTS… -- COMMAND ARGS…
//! ```

use std::collections::HashMap;
use std::io::BufReader;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{process, thread};

use antiphon_interop_peers::{
    METHOD_NOT_FOUND, assert_unordered, difference, failure, long_text, seen, unordered,
};
use lsp_server::{
    Connection, ErrorCode, Message, Notification, ReqQueue, Request, RequestId, Response,
    ResponseError,
};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(25);
const CANCEL: &str = "$/cancelRequest";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["server"] {
        return Server::run();
    }
    let end = words.iter().position(|word| *word == "--");
    let (Some(&"client"), Some(end)) = (words.first(), end) else {
        return Err("usage: lsp_server_peer server | client POINTS… -- COMMAND ARGS…".into());
    };
    thread::spawn(|| {
        thread::sleep(TIMEOUT);
        eprintln!("timed out");
        process::exit(1);
    });
    Client::start(&words[end + 1..])?.run(&words[1..end])
}

fn ended() -> Failure {
    "the conversation ended".into()
}

// -- the client

struct Client {
    child: Child,
    into: Option<ChildStdin>,
    messages: Receiver<Message>,
    queue: ReqQueue<(), usize>,
    /// Whether it answers `who`.
    serves: bool,
}

impl Client {
    fn start(words: &[&str]) -> Result<Client, Failure> {
        let (program, arguments) = words.split_first().ok_or("no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let (sender, messages) = channel();
        thread::spawn(move || {
            while let Ok(Some(message)) = Message::read(&mut out) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Client {
            into: child.stdin.take(),
            child,
            messages,
            queue: ReqQueue::default(),
            serves: false,
        })
    }

    fn run(mut self, points: &[&str]) -> Result<(), Failure> {
        for point in points {
            self.point(point)?;
            seen(point);
        }
        // The end of its input ends the server.
        drop(self.into.take());
        if !self.child.wait()?.success() {
            return Err("the server did not leave with 0".into());
        }
        println!("ok");
        Ok(())
    }

    fn point(&mut self, point: &str) -> Result<(), Failure> {
        match point {
            "position" => assert_eq!(self.result("subtract", json!([42, 23]))?, 19),
            "name" => {
                let params = json!({"subtrahend": 23, "minuend": 42});
                assert_eq!(self.result("subtract", params)?, 19);
            }
            "error" => {
                let error = self.error("fail", failure())?;
                assert_eq!(serde_json::to_value(error)?, failure());
                assert_eq!(self.error("nope", json!([]))?.code, METHOD_NOT_FOUND);
            }
            "notification" => {
                let before = self.result("count", json!([]))?.as_u64();
                for i in 0..3 {
                    self.notify("update", json!([i]))?;
                }
                let after = self.result("count", json!([]))?.as_u64();
                assert_eq!(after, before.map(|count| count + 3));
            }
            "order" => self.order()?,
            "text" => {
                let params = json!([long_text()]);
                assert!(self.result("echo", params.clone())? == params);
            }
            "cancel" => {
                let id = self.send("sleep", json!([9000]), 0)?;
                self.notify(CANCEL, json!({"id": id}))?;
                match self.next()? {
                    (0, Err(error)) => assert_eq!(error.code, ErrorCode::RequestCanceled as i32),
                    other => return Err(format!("{other:?}").into()),
                }
                assert_eq!(self.result("echo", json!(["after"]))?, json!(["after"]));
            }
            "back" => {
                self.serves = true;
                let answer = self.result("callback", json!(["who", ["q"]]))?;
                assert_eq!(answer, json!(["me", "é€", "q"]));
            }
            _ => return Err(format!("it has no {point}").into()),
        }
        Ok(())
    }

    fn order(&mut self) -> Result<(), Failure> {
        let calls = unordered();
        for (place, (method, params, _)) in calls.iter().enumerate() {
            self.send(method, params.clone(), place)?;
        }
        let mut ended = Vec::new();
        for _ in &calls {
            let (place, answer) = self.next()?;
            assert_eq!(answer.ok().as_ref(), Some(&calls[place].2));
            ended.push(place);
        }
        assert!(!self.queue.outgoing.has_pending());
        assert_unordered(&ended);
        Ok(())
    }

    fn result(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        self.send(method, params, 0)?;
        let (_, answer) = self.next()?;
        answer.map_err(|error| format!("{error:?}").into())
    }

    fn error(&mut self, method: &str, params: Value) -> Result<ResponseError, Failure> {
        self.send(method, params, 0)?;
        match self.next()? {
            (_, Err(error)) => Ok(error),
            (_, Ok(result)) => Err(format!("a result instead of an error: {result}").into()),
        }
    }

    fn send(&mut self, method: &str, params: Value, tag: usize) -> Result<RequestId, Failure> {
        let request = self.queue.outgoing.register(method.to_owned(), params, tag);
        let id = request.id.clone();
        self.write(Message::Request(request))?;
        Ok(id)
    }

    fn notify(&mut self, method: &str, params: Value) -> Result<(), Failure> {
        self.write(Message::Notification(Notification::new(
            method.to_owned(),
            params,
        )))
    }

    fn write(&mut self, message: Message) -> Result<(), Failure> {
        let into = self.into.as_mut().ok_or_else(ended)?;
        Ok(message.write(into)?)
    }

    /// The next answer, with the tag of its call. Requests are answered on the way.
    fn next(&mut self) -> Result<(usize, Result<Value, ResponseError>), Failure> {
        loop {
            match self.messages.recv().map_err(|_| ended())? {
                Message::Response(response) => {
                    let tag = self.queue.outgoing.complete(response.id);
                    let tag = tag.ok_or("an answer to nothing")?;
                    return Ok((tag, response.response_result));
                }
                Message::Request(request) => {
                    let answer = match (&*request.method, self.serves) {
                        ("who", true) => {
                            let mut result = vec![json!("me"), json!("é€")];
                            result.extend(request.params.as_array().into_iter().flatten().cloned());
                            Response::new_ok(request.id, result)
                        }
                        _ => unknown(request.id),
                    };
                    self.write(Message::Response(answer))?;
                }
                Message::Notification(_) => {}
            }
        }
    }
}

fn unknown(id: RequestId) -> Response {
    Response::new_err(id, METHOD_NOT_FOUND, "unknown".to_owned())
}

// -- the server

struct Server {
    connection: Connection,
    queue: ReqQueue<(), RequestId>,
    counted: u64,
}

impl Server {
    fn run() -> Result<(), Failure> {
        let (connection, threads) = Connection::stdio();
        let receiver = connection.receiver.clone();
        let (done, slept) = channel::<RequestId>();
        let (events, inbox) = channel();
        let of_messages = events.clone();
        thread::spawn(move || {
            for message in receiver {
                if of_messages.send(Event::Message(message)).is_err() {
                    return;
                }
            }
            // Nobody listens any more if the loop below has gone.
            let _ = of_messages.send(Event::End);
        });
        thread::spawn(move || {
            for id in slept {
                if events.send(Event::Slept(id)).is_err() {
                    return;
                }
            }
        });
        let mut server = Server {
            connection,
            queue: ReqQueue::default(),
            counted: 0,
        };
        for event in inbox {
            match event {
                Event::Message(Message::Request(request)) => server.request(request, &done)?,
                Event::Message(Message::Notification(told)) => server.notification(told)?,
                Event::Message(Message::Response(response)) => server.response(response)?,
                Event::Slept(id) => server.answer(Response::new_ok(id, "slept"))?,
                Event::End => break,
            }
        }
        // Its writing thread ends with the last sender.
        drop(server);
        Ok(threads.join()?)
    }

    fn request(&mut self, request: Request, done: &Sender<RequestId>) -> Result<(), Failure> {
        let Request { id, method, params } = request;
        self.queue.incoming.register(id.clone(), ());
        let answer = match &*method {
            "subtract" => match difference(&params) {
                Some(number) => Response::new_ok(id, number),
                None => Response::new_err(id, ErrorCode::InvalidParams as i32, "no".to_owned()),
            },
            "echo" => Response::new_ok(id, params),
            "fail" => Response {
                id,
                response_result: Err(serde_json::from_value(params)?),
            },
            "sleep" => {
                let millis = params[0].as_u64().ok_or("how long?")?;
                let done = done.clone();
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(millis));
                    // The server may have gone meanwhile.
                    let _ = done.send(id);
                });
                return Ok(());
            }
            "count" => Response::new_ok(id, self.counted),
            "callback" => {
                let (method, params): (String, Value) = serde_json::from_value(params)?;
                let request = self.queue.outgoing.register(method, params, id);
                return self.send(request);
            }
            _ => unknown(id),
        };
        self.answer(answer)
    }

    fn send(&self, message: impl Into<Message>) -> Result<(), Failure> {
        Ok(self.connection.sender.send(message.into())?)
    }

    /// Sends an answer, unless its request has been cancelled.
    fn answer(&mut self, response: Response) -> Result<(), Failure> {
        match self.queue.incoming.complete(&response.id) {
            Some(()) => self.send(response),
            None => Ok(()),
        }
    }

    fn notification(&mut self, told: Notification) -> Result<(), Failure> {
        if told.method == "update" {
            self.counted += 1;
        } else if told.method == CANCEL {
            let id: HashMap<String, RequestId> = serde_json::from_value(told.params)?;
            let id = id.into_values().next().ok_or("cancel what?")?;
            if let Some(response) = self.queue.incoming.cancel(id) {
                return self.send(response);
            }
        }
        Ok(())
    }

    fn response(&mut self, response: Response) -> Result<(), Failure> {
        let id = self.queue.outgoing.complete(response.id);
        let id = id.ok_or("an answer to nothing")?;
        self.answer(Response {
            id,
            response_result: response.response_result,
        })
    }
}

enum Event {
    Message(Message),
    Slept(RequestId),
    End,
}

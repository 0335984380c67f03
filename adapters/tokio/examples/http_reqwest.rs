//! Calls over HTTP with the program's own `reqwest` client: `http_reqwest URL METHOD`. Replies may be streams of
//! events, with progress before the answer.

use std::io::{self, Write};

use antiphon_tokio::http::{
    HttpError, HttpRequest, HttpResponse, HttpSend, HttpSending, with_send,
};
use antiphon_tokio::{Config, McpRevision, OwnedJson};

struct Reqwest(reqwest::Client);

impl HttpSend for Reqwest {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        let mut post = self.0.post(request.url.to_string());
        post = post.header("content-type", request.content_type);
        post = post.header("accept", request.accept);
        for (name, value) in &*request.headers {
            post = post.header(name, value);
        }
        let post = post.body(Vec::clone(&request.body));
        Box::pin(async {
            // Without a connection nothing was sent. With one that is not known: then the failure is `Lost`.
            let sent = post.send().await;
            let reply = sent.map_err(|error| match error.is_connect() {
                true => HttpError::Connect(io::Error::other(error)),
                false => HttpError::Lost(io::Error::other(error)),
            })?;
            let mut response = HttpResponse::new(reply.status().as_u16(), "");
            response.headers = reply.headers().clone().into();
            Ok(response.with_pieces(reply.bytes_stream()))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, method] = &words[..] else {
        return Err("http_reqwest URL METHOD".into());
    };
    let reqwest = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    let client = with_send(url, Config::mcp(McpRevision::V2025_11_25), Reqwest(reqwest))?;
    let call = client.call::<OwnedJson>(method, ());
    let result = call
        .progress(|step: OwnedJson| drop(writeln!(io::stderr(), "progress {step}")))
        .await?;
    writeln!(io::stdout(), "{result}")?;
    Ok(())
}

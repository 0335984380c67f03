//! Calls a method over HTTP with a bearer token, and prints the result.
//!
//! `API_TOKEN=s3cret cargo run -p antiphon-tokio --features http --example http_token_client -- \
//! http://127.0.0.1:8080/rpc health`

use std::io::{Write, stderr, stdout};

use antiphon_tokio::{BearerAuth, ClientConfig, Config, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "http_token_client: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(method)) = (words.next(), words.next()) else {
        return Err("usage: API_TOKEN=… http_token_client http://HOST:PORT/PATH METHOD".into());
    };
    // It is asked for at each call, so it may change.
    let token = BearerAuth::new(|| Ok(std::env::var("API_TOKEN").ok()));
    let client = connect(url, ClientConfig::new(Config::new()).with_auth(token), ()).await?;
    let result = client.call(&method, ()).raw().await?;
    writeln!(stdout(), "{}", result.as_json())?;
    Ok(())
}

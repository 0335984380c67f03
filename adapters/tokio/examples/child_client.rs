//! Starts a server as a child process, calls a method over its standard input and output, and prints the
//! result. The child is killed when the client is dropped.
//!
//! `cargo run -p antiphon-tokio --example child_client -- add '[1,2]' target/debug/examples/calculator`

use std::io::{Write, stderr, stdout};
use std::process::Command;

use antiphon_tokio::{Config, OwnedJson, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "child_client: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(method), Some(params), Some(program)) = (words.next(), words.next(), words.next())
    else {
        return Err("usage: child_client METHOD PARAMS PROGRAM [ARGUMENT…]".into());
    };
    let params = OwnedJson::parse(params).map_err(|_| "the params are no JSON")?;
    let mut server = Command::new(program);
    server.args(words);
    let client = connect(server, Config::new(), ()).await?;
    let result = client.call(&method, params.as_json()).raw().await?;
    writeln!(stdout(), "{}", result.as_json())?;
    Ok(())
}

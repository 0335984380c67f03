//! Sends a text to an echo server over TCP, such as `tcp_echo`, and prints the answer.
//!
//! `cargo run -p antiphon-tokio --example tcp_client -- tcp://127.0.0.1:7777 hello`

use std::io::{Write, stderr, stdout};

use antiphon_tokio::{Config, connect};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "tcp_client: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(text)) = (words.next(), words.next()) else {
        return Err("usage: tcp_client tcp://HOST:PORT TEXT".into());
    };
    let client = connect(url, Config::new(), ()).await?;
    let [echoed] = client.call::<[String; 1]>("echo", &[text]).await?;
    writeln!(stdout(), "{echoed}")?;
    Ok(())
}

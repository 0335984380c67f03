//! Calls the calculator of `calculator_server`, with single calls and with a batch.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example calculator_client -- http://127.0.0.1:8080/rpc
//! 10 + 5 = 15
//! 1 / 0: -32602 Division by zero
//! 1 + 2 = 3
//! multiply(3, 4): -32601 Method not found
//! getServerName(): -32601 Method not found
//! ```

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use antiphon_tokio::{
    CallError, Config, FetchError, NotificationOk, OwnedOutcome, RpcError, connect, service,
};

/// The part of the server's service that this program calls.
#[service(rename_all = "camelCase", server = false)]
trait Calculator {
    async fn add(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    async fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    async fn log_calculation(&self, operation: String, result: f64) -> NotificationOk;
}

#[derive(Debug, RpcError)]
enum CalcError {
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    let url = url.as_deref().unwrap_or("http://127.0.0.1:8080/rpc");
    // Ids count up from 1, and a call waits 30 s for its answer.
    let client = connect(url, Config::new(), ()).await?;
    let calculator = CalculatorClient::new(&client);

    print(format_args!(
        "10 + 5 = {}",
        calculator.add(10.0, 5.0).await?
    ));
    match calculator.divide(1.0, 0.0).await {
        Ok(result) => print(format_args!("1 / 0 = {result}")),
        Err(CallError::Remote(CalcError::DivisionByZero)) => {
            print(format_args!("1 / 0: -32602 Division by zero"));
        }
        Err(error) => return Err(error.into()),
    }

    let ((sum, product, name), mut outcomes) = client
        .batch(|batch| {
            let calculator = CalculatorClient::new(batch);
            let sum = calculator.add(1.0, 2.0)?;
            let product = batch.call::<f64>("multiply", &(3, 4))?;
            let name = batch.call::<String>("getServerName", ())?;
            calculator.log_calculation("add".into(), 3.0)?;
            Ok((sum, product, name))
        })
        .await?;
    // The handles are still valid, though the builder is gone.
    print(format_args!("1 + 2 = {}", outcomes.fetch(sum)?));
    print(format_args!(
        "multiply(3, 4){}",
        shown(outcomes.fetch(product))
    ));
    print(format_args!(
        "getServerName(){}",
        shown(outcomes.fetch(name))
    ));
    Ok(())
}

fn shown<R: std::fmt::Display>(fetched: Result<R, FetchError>) -> String {
    match fetched {
        Ok(result) => format!(" = {result}"),
        Err(FetchError::Outcome(OwnedOutcome::Err(error))) => {
            let error = error.as_error();
            format!(": {} {}", error.code(), error.message())
        }
        Err(error) => format!(": {error}"),
    }
}

/// Writes a line to standard output. If that is closed, only the line is lost.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

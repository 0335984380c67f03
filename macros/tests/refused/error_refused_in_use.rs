//! The derive fails, and nothing else is reported.

use antiphon::service::LocalRouter;
use antiphon_macros::{RpcError, service};

#[derive(Debug, RpcError)]
enum Wrong {
    #[rpc(code = -32100)]
    One,
}

#[service]
trait Calculator {
    fn add(&self, a: u8) -> Result<u8, Wrong>;
}

struct Mine;

impl Calculator for Mine {
    fn add(&self, _: u8) -> Result<u8, Wrong> {
        Err(Wrong::One)
    }
}

fn main() {
    let _router = LocalRouter::new().service(Mine.into_service());
    let _error: antiphon::OwnedError = Wrong::One.into();
    println!("{}", Wrong::One);
}

//! One method is refused, and nothing else is reported.

use antiphon::OwnedError;
use antiphon::service::LocalRouter;
use antiphon_macros::service;

#[service(rename = "camelCase")]
trait Calculator {
    fn add(&self, a: &str) -> Result<u8, OwnedError>;
    #[rpc(name = "minus")]
    fn sub(&self, #[rpc(name = "by")] a: u8) -> Result<u8, OwnedError>;
}

struct Mine;

impl Calculator for Mine {
    fn add(&self, _: &str) -> Result<u8, OwnedError> {
        Ok(1)
    }

    fn sub(&self, a: u8) -> Result<u8, OwnedError> {
        Ok(a)
    }
}

fn main() {
    let _router = LocalRouter::new().service(Mine.into_service());
}

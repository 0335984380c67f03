use antiphon::OwnedError;
use antiphon_macros::service;

#[service(rename = "camelCase")]
trait Calculator {
    fn add(&self) -> Result<u8, OwnedError>;
}

fn main() {}

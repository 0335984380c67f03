use antiphon::OwnedError;
use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: &str) -> Result<u8, OwnedError>;
}

fn main() {}

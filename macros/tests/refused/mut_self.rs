use antiphon::OwnedError;
use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&mut self) -> Result<u8, OwnedError>;
}

fn main() {}

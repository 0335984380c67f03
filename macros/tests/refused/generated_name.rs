use antiphon_macros::service;

#[service]
trait Calculator {
    fn new(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

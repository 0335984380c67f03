use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&mut self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

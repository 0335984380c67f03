use antiphon_macros::service;

#[service]
trait Calculator {
    const N: u8; fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

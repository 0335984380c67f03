use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: impl Into<String>) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: u8) -> Result<&str, antiphon::OwnedError>;
    fn all(&self) -> Result<Vec<&'static str>, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    fn add<T>(&self, a: T) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    #[cfg(unix)]
    fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

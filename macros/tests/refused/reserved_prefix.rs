use antiphon_macros::service;

#[service(prefix = "rpc")]
trait Calculator {
    fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

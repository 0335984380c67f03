use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: u8, #[rpc(name = "a")] b: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self) -> Result<u8, antiphon::OwnedError>; #[rpc(name = "add")] fn sum(&self) -> Result<u8, OwnedError>;
}

fn main() {}

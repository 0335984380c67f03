use antiphon_macros::service;

#[service]
trait Calculator {
    #[rpc(name = "rpc.add")] fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

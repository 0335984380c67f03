use antiphon_macros::service;

#[service]
trait Calculator {
    #[rpc(context)] fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

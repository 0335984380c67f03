use antiphon_macros::service;

#[service]
trait Calculator {
    async fn add(&self, #[rpc(finish)] a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

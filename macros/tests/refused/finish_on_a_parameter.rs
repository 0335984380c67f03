use antiphon_macros::service;

#[service]
trait Calculator {
    async fn add(&self, #[rpc(run_to_end)] a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

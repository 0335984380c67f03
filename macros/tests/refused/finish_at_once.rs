use antiphon_macros::service;

#[service]
trait Calculator {
    #[rpc(run_to_end)]
    fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

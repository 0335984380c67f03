use antiphon_macros::service;

#[service]
trait Calculator {
    #[rpc(unknown_params = "drop")]
    fn add(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
    #[rpc(unknown_params)]
    fn subtract(&self, a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

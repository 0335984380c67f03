use antiphon_macros::service_blocking;

#[service_blocking]
trait Calculator {
    async fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

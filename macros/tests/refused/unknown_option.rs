use antiphon_macros::service;

#[service(rename = "camelCase")]
trait Calculator {
    fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

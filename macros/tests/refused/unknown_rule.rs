use antiphon_macros::service;

#[service(rename_all = "camel")]
trait Calculator {
    fn add(&self) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: Option<&str>) -> Result<u8, antiphon::OwnedError>;
    fn json(&self, a: antiphon::Json<'_>) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

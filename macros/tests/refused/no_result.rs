use antiphon_macros::service;

#[service]
trait Calculator {
    fn add(&self, a: u8) -> u8;
}

fn main() {}

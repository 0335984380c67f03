use antiphon_macros::service;

type Reply<T> = Result<T, antiphon::OwnedError>;
type Unit = ();

#[service]
trait Calculator {
    fn add(&self, a: u8) -> Reply<u8>;
    fn unit(&self) -> Unit;
}

fn main() {}

use antiphon::FromCall;
use antiphon_macros::service;

struct Peer;

impl<R: ?Sized, S: ?Sized> FromCall<R, S> for Peer {
    fn from_call(_: &R, _: &S) -> Result<Self, antiphon::OwnedError> {
        Ok(Self)
    }
}

// With a client the compiler also says, in serde's words, that it cannot be sent.
#[service(client = false)]
trait Calculator {
    async fn add(&self, p: Peer, a: u8) -> Result<u8, antiphon::OwnedError>;
}

fn main() {}

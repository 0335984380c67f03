//! The service that every table here calls: it answers with the one string that it was called with.

use antiphon_tokio::{Answer, OwnedError, Peer, Request, Service};

pub(crate) struct Echo;

fn echo(request: &Request) -> Result<Answer, OwnedError> {
    match request.method() {
        "echo" => {
            let (word,): (&str,) = request.params()?;
            Ok(word.into())
        }
        _ => Err(request.unknown_method()),
    }
}

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        echo(request)
    }
}

impl antiphon_blocking::Service for Echo {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        echo(request)
    }
}

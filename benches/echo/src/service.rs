//! The service that every table here asks: it answers with the one string that it was asked with.

use antiphon_tokio::{Peer, Request, Responder, Service, Answer, OwnedError};

pub(crate) struct Echo;

fn echo(request: &Request, reply: Responder) {
    let params = request.raw_params().map(|params| params.decode::<(&str,)>());
    let answered = match params {
        Some(Ok((word,))) if request.method() == "echo" => reply.ok(word),
        _ => reply.unknown_method(request.method()),
    };
    if let Err(error) = answered {
        eprintln!("an answer was not sent: {error}");
    }
}

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &mut Request) -> Result<Answer, OwnedError> {
 let reply = request.defer();
        echo(&request, reply);
 Ok(Answer::deferred())
}
}

impl antiphon_blocking::Service for Echo {
    fn request(&mut self, _: &antiphon_blocking::Peer, request: &mut Request) -> Result<Answer, OwnedError> {
 let reply = request.defer();
        echo(&request, reply);
 Ok(Answer::deferred())
}
}

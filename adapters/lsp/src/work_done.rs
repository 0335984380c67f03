//! Work-done progress.

use antiphon::OwnedJson;
use antiphon_net::{Progress, RequestContext};
use gen_lsp_types::{WorkDoneProgressCreateParams, WorkDoneProgressCreateRequest};
use serde::Serialize;

use crate::client::Client;
use crate::typed::LspPeer;

/// Shows the editor's user how far a request is. It ends when it is dropped, so also when the request
/// is cancelled.
///
/// ```
/// use antiphon_lsp::types::ExecuteCommandRequest;
/// use antiphon_lsp::{LanguageServer, WorkDone};
///
/// let server = LanguageServer::new().on::<ExecuteCommandRequest>(|_, call| async move {
///     let work = WorkDone::begin(&call, "Counting").await;
///     for done in 0..100 {
///         work.report(None, Some(done));
///         // Some of the work.
///     }
///     Ok(None)
/// });
/// # let _: LanguageServer = server;
/// ```
#[derive(Debug)]
pub struct WorkDone(Progress<Step>);

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Step {
    Begin {
        title: String,
        percentage: u32,
    },
    Report {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        percentage: Option<u32>,
    },
    End {},
}

impl WorkDone {
    /// Begins to tell of the progress of a request: under the token that it carries, or else under one
    /// of the server's own, to which the editor has to agree. An editor that shows no progress is told
    /// nothing.
    pub async fn begin<S>(call: &RequestContext<S>, title: impl Into<String>) -> Self {
        let progress = match call.extract::<Progress<Step>>() {
            Ok(progress) if progress.token().is_some() => progress,
            _ => created(call).await,
        };
        let (work, title) = (Self(progress), title.into());
        work.send(&Step::Begin {
            title,
            percentage: 0,
        });
        work
    }

    /// Tells what is being done, and how much is done: 0 to 100 of a hundred.
    pub fn report(&self, message: Option<String>, percentage: Option<u32>) {
        self.send(&Step::Report {
            message,
            percentage,
        });
    }

    fn send(&self, step: &Step) {
        // An editor that does not read misses a step.
        let _ = self.0.send(step);
    }
}

/// Progress under a token of the server's own; told nowhere if the editor does not agree to it.
async fn created<S>(call: &RequestContext<S>) -> Progress<Step> {
    let peer = call.peer();
    let number = Client::with(&peer, |client| {
        client.begun += 1;
        client.shows_progress.then_some(client.begun)
    });
    let Some(number) = number else {
        return Progress::new(peer, None);
    };
    let token = format!("server-{number}");
    let json = OwnedJson::from_value(&token).ok();
    let params = WorkDoneProgressCreateParams::new(token.into());
    let agreed = peer.request::<WorkDoneProgressCreateRequest>(&params).await;
    Progress::new(peer, json.filter(|_| agreed.is_ok()))
}

impl Drop for WorkDone {
    fn drop(&mut self) {
        self.send(&Step::End {});
    }
}

//! Work-done progress.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antiphon::OwnedJson;
use antiphon_net::{Progress, RequestContext};
use gen_lsp_types::{WorkDoneProgressCreateParams, WorkDoneProgressCreateRequest};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::typed::LspPeer;

/// Reports the progress of a request to the editor's user. The progress ends when this is dropped,
/// also when the request is cancelled.
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
pub struct WorkDone(WorkSteps);

/// Reports the steps of a [`WorkDone`] from another thread, such as one of the pool. After the end of the
/// `WorkDone` it sends nothing, because a token must not be used after its end.
///
/// ```
/// use antiphon_lsp::types::ExecuteCommandRequest;
/// use antiphon_lsp::{LanguageServer, WorkDone};
///
/// let server = LanguageServer::new().on::<ExecuteCommandRequest>(|_, call| async move {
///     let work = WorkDone::begin(&call, "Counting").await;
///     let steps = work.steps();
///     let counted = call.on_pool(move |cancellation| {
///         // A cancel cannot stop a thread, so it is asked for.
///         for done in (0..100).take_while(|_| !cancellation.is_cancelled()) {
///             steps.report(None, Some(done));
///             // Some of the work.
///         }
///     });
///     counted.await?;
///     Ok(None)
/// });
/// # let _: LanguageServer = server;
/// ```
#[derive(Clone, Debug)]
pub struct WorkSteps(Arc<Mutex<Option<Progress<WorkDoneStep>>>>);

impl WorkSteps {
    /// Reports the current step, and the progress in percent, 0 to 100.
    pub fn report(&self, message: Option<String>, percentage: Option<u32>) {
        if let Some(progress) = &*self.lock() {
            // If the editor does not read, the step is dropped.
            let _ = progress.send(&WorkDoneStep::Report {
                message,
                percentage,
            });
        }
    }

    /// `None` after the end.
    fn lock(&self) -> MutexGuard<'_, Option<Progress<WorkDoneStep>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step of work-done progress: sent by a server with [`WorkDone`], and received by an editor
/// whose call asks for it.
///
/// ```no_run
/// # use antiphon_net::{CallError, Peer};
/// use antiphon_lsp::types::{ExecuteCommandParams, ExecuteCommandRequest};
/// use antiphon_lsp::{LspPeer, WorkDoneStep};
///
/// # async fn example(server: Peer, params: ExecuteCommandParams) -> Result<(), CallError> {
/// let mut shown = String::new();
/// let call = server.request::<ExecuteCommandRequest>(&params);
/// call.progress(|step: WorkDoneStep| {
///     if let WorkDoneStep::Begin { title, .. } = step {
///         shown = title;
///     }
/// })
/// .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkDoneStep {
    /// The work begins.
    Begin {
        /// The title of the work.
        title: String,
        /// The current step, as text.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The progress in percent, 0 to 100. `None` if it is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        percentage: Option<u32>,
    },
    /// The work goes on.
    Report {
        /// The current step, as text.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The progress in percent, 0 to 100.
        #[serde(skip_serializing_if = "Option::is_none")]
        percentage: Option<u32>,
    },
    /// The work has ended, with or without success.
    End {
        /// The result, as text.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

impl WorkDone {
    /// Begins to report the progress of a request: under the request's token, or else under a token
    /// of the server, to which the editor has to agree. Without a token of the request, nothing is sent to
    /// an editor whose capabilities do not have `workDoneProgress`.
    pub async fn begin<S>(call: &RequestContext<S>, title: impl Into<String>) -> Self {
        let progress = match call.extract::<Progress<WorkDoneStep>>() {
            Ok(progress) if progress.token().is_some() => progress,
            _ => created(call).await,
        };
        // If the editor does not read, the step is dropped.
        let _ = progress.send(&WorkDoneStep::Begin {
            title: title.into(),
            message: None,
            percentage: Some(0),
        });
        Self(WorkSteps(Arc::new(Mutex::new(Some(progress)))))
    }

    /// Reports steps from elsewhere, while this exists.
    pub fn steps(&self) -> WorkSteps {
        self.0.clone()
    }

    /// Reports the current step, and the progress in percent, 0 to 100.
    pub fn report(&self, message: Option<String>, percentage: Option<u32>) {
        self.0.report(message, percentage);
    }
}

/// Makes progress under a token of the server; nothing is sent if the editor does not agree to it.
async fn created<S>(call: &RequestContext<S>) -> Progress<WorkDoneStep> {
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
        if let Some(progress) = self.0.lock().take() {
            progress.send_at_drop(&WorkDoneStep::End { message: None });
        }
    }
}

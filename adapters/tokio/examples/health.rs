//! A service that tells whether what it needs works. Its method `health` runs checks at the same time,
//! each with a deadline.
//!
//! ```sh
//! echo '{"jsonrpc":"2.0","method":"health","id":1}' | cargo run -p antiphon-tokio --example health
//! ```
//!
//! Why a check has failed is written to the log alone, because errors may name hosts, files and users.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use antiphon_tokio::{Config, OwnedError, Router, serve_stdio};
use serde::Serialize;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
    checks: BTreeMap<&'static str, &'static str>,
}

/// Checks that run, each on a task of its own: a panic ends only one. If the call is cancelled, all are
/// dropped.
#[derive(Default)]
pub(crate) struct Checks {
    running: JoinSet<Option<Outcome>>,
    names: HashMap<Id, &'static str>,
}

impl Checks {
    pub(crate) fn check<F>(mut self, name: &'static str, deadline: Duration, check: F) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let check = async move { timeout(deadline, check).await.ok() };
        self.names.insert(self.running.spawn(check).id(), name);
        self
    }

    /// Waits for all checks. Passes the names of those that failed to `log`, with the cause.
    pub(crate) async fn health(mut self, log: impl Fn(&str, &dyn Error)) -> Health {
        let mut checks = BTreeMap::new();
        while let Some(ended) = self.running.join_next_with_id().await {
            let id = ended.as_ref().map_or_else(|error| error.id(), |ok| ok.0);
            let (result, cause) = match ended {
                Ok((_, Some(Ok(())))) => ("pass", None),
                Ok((_, Some(Err(cause)))) => ("failed", Some(cause)),
                Ok((_, None)) => ("timed out", Some("its deadline has passed".into())),
                Err(panic) => ("panicked", Some(panic.into())),
            };
            checks.insert(self.names[&id], result);
            if let Some(cause) = cause {
                log(self.names[&id], &*cause);
            }
        }
        let is_passing = checks.values().all(|result| *result == "pass");
        let status = if is_passing { "pass" } else { "fail" };
        Health { status, checks }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let health = async || {
        let checks = Checks::default().check("disk", Duration::from_secs(1), async {
            Ok(std::fs::metadata("/").map(drop)?)
        });
        let log = |name: &str, cause: &dyn Error| drop(writeln!(io::stderr(), "{name}: {cause}"));
        Ok::<_, OwnedError>(checks.health(log).await)
    };
    let router = Router::new().method("health", [], health);
    if let Err(error) = serve_stdio(Config::new(), router).await {
        let _ = writeln!(io::stderr(), "health: {error}");
    }
}

//! A method that reports whether the service works.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::service::{Arguments, Failure, Handler, ParamInfo};
use antiphon::session::{Report, RequestDetails};
use antiphon::{Json, OwnedError, OwnedJson};
use futures_util::future::join_all;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use super::serving::{Answering, Answers, OnThreads, marker};
use crate::debug::debug_fields;
use crate::request::Request;
use crate::runtime::threads::block_on;
use crate::runtime::{Runtime, until};

type Cause = Box<dyn Error + Send + Sync>;
type Outcome = Result<OwnedJson, Problem>;

/// Checks of what a service depends on, each with a deadline. It is the handler of a method, which
/// runs all checks at the same time and answers with their results. Register it in a router under
/// any name.
///
/// The answer has the members `status`, `pass` or `fail`, and `checks`, an object with an entry per
/// check: its `status`; `duration_ms`, in milliseconds; `detail`, the value that the check
/// returned, unless that is `null`; and for a failed check `reason`, which is `failed`, `timed out`
/// or `panicked`. The error of a failed check is reported to the service, and sent to the peer only with
/// [`show_causes`](Self::show_causes).
///
/// On threads a check that blocks its thread blocks the connection, whatever its deadline.
///
/// ```
/// use std::time::Duration;
/// use antiphon_net::{Health, Router};
///
/// let health = Health::new()
///     .check("disk", Duration::from_secs(1), || async { std::fs::metadata("/").map(drop) })
///     .check("queue", Duration::from_secs(1), || async { Ok::<_, std::io::Error>(3) });
/// let router = Router::new().method("health", [], health.clone());
/// // {"status":"pass","checks":{"disk":{"status":"pass","duration_ms":0.1},"queue":{…,"detail":3}}}
/// # let _: Router = router;
/// ```
#[derive(Clone, Default)]
pub struct Health {
    checks: Vec<Arc<Check>>,
    shows_causes: bool,
}

struct Check {
    name: String,
    deadline: Duration,
    run: Run,
}

type Run = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync>;

impl Health {
    /// Makes one without checks, whose status is always `pass`.
    pub const fn new() -> Self {
        Self {
            checks: Vec::new(),
            shows_causes: false,
        }
    }

    /// Adds a check, which fails if it returns an error, panics or takes longer than `deadline`, after
    /// which its future is dropped. The value that it returns is in the answer, unless its JSON is `null`,
    /// as that of `()`.
    #[must_use]
    pub fn check<F, T, E>(
        mut self,
        name: impl Into<String>,
        deadline: Duration,
        run: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: Into<Cause>,
    {
        let run = move || -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
            let running = run();
            Box::pin(async move {
                let detail = running
                    .await
                    .map_err(|error| Problem::Failed(error.into()))?;
                OwnedJson::from_value(&detail).map_err(|error| Problem::Failed(error.into()))
            })
        };
        self.checks.push(Arc::new(Check {
            name: name.into(),
            deadline,
            run: Box::new(run),
        }));
        self
    }

    /// Sends the errors of failed checks to the peer, as `cause`. Only for peers that may know
    /// them: errors may name hosts, files and users.
    #[must_use]
    pub const fn show_causes(mut self) -> Self {
        self.shows_causes = true;
        self
    }

    /// Runs the checks, for a route of a web server or for a log. `runtime` is used for the deadlines.
    pub async fn run(&self, runtime: &dyn Runtime) -> HealthReport {
        let checks = self.checks.iter().map(|check| check.run(runtime));
        HealthReport {
            checks: join_all(checks).await,
            shows_causes: self.shows_causes,
        }
    }
}

impl Check {
    async fn run(&self, runtime: &dyn Runtime) -> Checked {
        let began = runtime.now();
        let outcome = until(runtime, began + self.deadline, caught(&self.run)).await;
        Checked {
            name: self.name.clone(),
            duration: runtime.now().saturating_since(began),
            outcome: outcome.unwrap_or(Err(Problem::TimedOut)),
        }
    }
}

/// Runs a check. If it panics, it has failed.
async fn caught(run: &Run) -> Outcome {
    let Ok(mut running) = catch_unwind(AssertUnwindSafe(run)) else {
        return Err(Problem::Panicked);
    };
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(_) => Poll::Ready(Err(Problem::Panicked)),
        },
    )
    .await
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.checks.iter().map(|check| &check.name))
            .finish()
    }
}

/// Why a check has failed.
#[derive(Debug)]
enum Problem {
    Failed(Cause),
    TimedOut,
    Panicked,
}

impl Problem {
    fn reason(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::TimedOut => "timed out",
            Self::Panicked => "panicked",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        match self {
            Self::Failed(cause) => write!(f, ": {cause}"),
            _ => Ok(()),
        }
    }
}

/// The results of the checks of a [`Health`]. Serialised, it is the answer of the method.
#[derive(Debug)]
pub struct HealthReport {
    checks: Vec<Checked>,
    shows_causes: bool,
}

#[derive(Debug)]
struct Checked {
    name: String,
    duration: Duration,
    outcome: Outcome,
}

impl HealthReport {
    /// Whether every check has passed.
    pub fn is_passing(&self) -> bool {
        self.checks.iter().all(|checked| checked.outcome.is_ok())
    }

    /// The checks that have failed, each with its reason: `failed`, `timed out` or `panicked`.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|checked| {
            let problem = checked.outcome.as_ref().err()?;
            Some((checked.name.as_str(), problem.reason()))
        })
    }
}

fn status(is_passing: bool) -> &'static str {
    match is_passing {
        true => "pass",
        false => "fail",
    }
}

impl Serialize for HealthReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("HealthReport", 2)?;
        report.serialize_field("status", status(self.is_passing()))?;
        report.serialize_field("checks", &Entries(self))?;
        report.end()
    }
}

/// The checks by their names.
struct Entries<'r>(&'r HealthReport);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(report) = self;
        serializer.collect_map(report.checks.iter().map(|checked| {
            let entry = Entry {
                checked,
                shows_cause: report.shows_causes,
            };
            (&checked.name, entry)
        }))
    }
}

struct Entry<'r> {
    checked: &'r Checked,
    shows_cause: bool,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = &self.checked.outcome;
        let mut entry = serializer.serialize_map(None)?;
        entry.serialize_entry("status", status(outcome.is_ok()))?;
        // Whole microseconds, so that there are few digits.
        let millis = (self.checked.duration.as_micros() as f64) / 1000.0;
        entry.serialize_entry("duration_ms", &millis)?;
        match outcome {
            Ok(detail) if detail.as_str() == "null" => {}
            Ok(detail) => entry.serialize_entry("detail", detail)?,
            Err(problem) => {
                entry.serialize_entry("reason", problem.reason())?;
                if let (true, Problem::Failed(cause)) = (self.shows_cause, problem) {
                    entry.serialize_entry("cause", &cause.to_string())?;
                }
            }
        }
        entry.end()
    }
}

/// Runs the checks for a request.
pub struct Checking(Pin<Box<dyn Future<Output = HealthReport> + Send>>);

debug_fields!(impl[] Checking as "Checking" {});

impl Future for Checking {
    type Output = Result<HealthReport, OwnedError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl Answers<OnThreads, marker::OnItsThread> for Checking {
    fn answer(self, request: &Request) -> Answering {
        Answers::<OnThreads, marker::AtOnce>::answer(block_on(pin!(self)), request)
    }
}

impl<S> Handler<Request, S, marker::OfHealth> for Health {
    type Output = Checking;
    const NAMES: usize = 0;
    const IS_WHOLE: bool = false;

    fn describe(_: &[&'static str]) -> Vec<ParamInfo> {
        Vec::new()
    }

    fn call(
        &self,
        params: Option<Json<'_>>,
        names: &[&'static str],
        request: &Request,
        _: &S,
    ) -> Result<Checking, Failure> {
        Arguments::of(params, names)?;
        let (health, peer) = (self.clone(), request.peer());
        let mut about = RequestDetails::of_notification(request.method());
        about.id = request.id();
        Ok(Checking(Box::pin(async move {
            let session = peer.session();
            let report = health.run(session.runtime()).await;
            for Checked { name, outcome, .. } in &report.checks {
                if let Err(problem) = outcome {
                    let cause = format!("the check {name} {problem}");
                    let error = OwnedError::internal(cause.into());
                    session.report(Report::Failed(about.clone(), error));
                }
            }
            report
        })))
    }
}

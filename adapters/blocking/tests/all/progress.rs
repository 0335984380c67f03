//! Progress of a call, on threads.

use antiphon_blocking::{Config, Internal, Link, OwnedError, Progress, Router, attach};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Step {
    done: u32,
}

// USE-21
#[test]
fn a_thread_hears_of_the_progress_of_its_call() {
    let router = Router::new().method("count", ["to"], |to: u32, progress: Progress<Step>| {
        for done in 1..=to {
            progress.send(&Step { done }).internal()?;
        }
        Ok::<_, OwnedError>(to)
    });
    let (near, far) = Link::pair();
    let _far = attach(far, Config::lsp(), router).unwrap();
    let near = attach(near, Config::lsp(), ()).unwrap();
    let mut heard = Vec::new();
    let params = std::collections::BTreeMap::from([("to", 3)]);
    let call = near.call::<u32>("count", &params);
    let counted = call.progress(|step: Step| heard.push(step.done)).wait();
    assert_eq!((counted.unwrap(), heard), (3, vec![1, 2, 3]));
}

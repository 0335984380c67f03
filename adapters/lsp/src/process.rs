//! The process of the editor.

/// Whether a process exists. A process that has ended exists until its parent has waited for it.
#[cfg(unix)]
pub(crate) fn is_there(process: i32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    // A process that we may not send signals to exists.
    Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns false, because on this system it is not known whether a process exists. So nothing is checked.
#[cfg(not(unix))]
pub(crate) fn is_there(_: i32) -> bool {
    false
}

//! The process of the editor.

/// Whether a process is there. One that has ended and was not waited for by its parent still is.
#[cfg(unix)]
pub(crate) fn is_there(process: i32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    // One that may not be asked is there.
    Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether a process is there: not known here.
#[cfg(not(unix))]
pub(crate) fn is_there(_: i32) -> bool {
    false
}

//! Child processes that do not outlive their parent.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Makes the command start in a process group of its own, so that a terminal's ctrl-C reaches only the parent, and be
/// killed when the thread that starts it ends, however that happens.
pub fn bind_to_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let at_start = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the line above sends no signal any more.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls that are safe there (prctl and getppid), takes no
    // lock, allocates nothing, and touches nothing but its own copy of a process id.
    unsafe { command.pre_exec(at_start) };
}

/// Sends a signal to a child and all processes of its group. One that has ended is no error.
///
/// # Errors
/// The system's, if this process may not.
pub fn signal_group(child: &Child, signal: Signal) -> io::Result<()> {
    match rustix::process::kill_process_group(pid(child)?, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// Waits until the child has ended and leaves it to be reaped: its process id stays its own until then.
///
/// # Errors
/// The system's.
pub fn await_end(id: u32) -> io::Result<()> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

fn pid(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    fn cat() -> Command {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        bind_to_parent(&mut command);
        command
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| cat().spawn().expect("cat starts")).join().expect("the thread ends");
        assert_eq!(child.wait().expect("an end").signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_child_can_be_signalled_until_it_is_reaped() {
        let mut child = cat().spawn().expect("cat starts");
        signal_group(&child, Signal::TERM).expect("may signal");
        await_end(child.id()).expect("an end");
        signal_group(&child, Signal::KILL).expect("still its own process id");
        assert_eq!(child.wait().expect("an end").signal(), Some(Signal::TERM.as_raw()));
    }
}

//! Child processes that do not outlive their parent, or what they are run for.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

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

/// Waits between two looks at a child that says nothing.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LAST: Duration = Duration::from_millis(10);

/// Runs a command to its end, its output taken, as long as `goes_on` allows it with so many bytes of output; else it and what it has
/// started are killed, and the answer is none.
///
/// # Errors
/// The system's.
pub fn output(command: &mut Command, mut goes_on: impl FnMut(usize) -> bool) -> io::Result<Option<Output>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let taken = take_output(&mut child, &mut goes_on);
    if !matches!(taken, Ok(Some(_))) {
        signal_group(&child, Signal::KILL)?;
        child.wait()?;
    }
    taken
}

fn take_output(child: &mut Child, goes_on: &mut impl FnMut(usize) -> bool) -> io::Result<Option<Output>> {
    let (mut out, mut error) = (child.stdout.take(), child.stderr.take());
    out.as_ref().map(never_blocks).transpose()?;
    error.as_ref().map(never_blocks).transpose()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut look = LOOK_FIRST;
    loop {
        let before = stdout.len() + stderr.len();
        take_part(&mut out, &mut stdout)?;
        take_part(&mut error, &mut stderr)?;
        let held = stdout.len() + stderr.len();
        if out.is_none()
            && error.is_none()
            && let Some(status) = child.try_wait()?
        {
            return Ok(Some(Output { status, stdout, stderr }));
        }
        if !goes_on(held) {
            return Ok(None);
        }
        if held > before {
            look = LOOK_FIRST;
        } else {
            std::thread::sleep(look);
            look = (look * 2).min(LOOK_LAST);
        }
    }
}

fn never_blocks(pipe: &impl AsFd) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    Ok(fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?)
}

/// What a pipe holds now, up to a bound; at its end there is none any more.
fn take_part<R: Read>(pipe: &mut Option<R>, held: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 1 << 14];
    let Some(reader) = pipe else { return Ok(()) };
    match reader.read(&mut part) {
        Ok(0) => *pipe = None,
        Ok(n) => held.extend_from_slice(part.get(..n).unwrap_or_default()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(error) => return Err(error),
    }
    Ok(())
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

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn output_is_taken_to_the_end_of_both_pipes() {
        let text = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; echo x; exit 3";
        let all = output(&mut shell(text), |_| true).expect("it runs").expect("all of it");
        assert_eq!((all.stdout.len(), all.stderr.len(), all.status.code()), (300_002, 200_000, Some(3)));
        // Pipes that are closed early say nothing of the end.
        let quiet =
            output(&mut shell("exec >&- 2>&-; sleep 0.05; exit 4"), |_| true).expect("it runs").expect("its end");
        assert_eq!(quiet.status.code(), Some(4));
    }

    #[test]
    fn what_takes_too_long_or_says_too_much_is_killed_with_all_that_it_started() {
        for text in ["sleep 1000 & sleep 1000", "exec >&- 2>&-; sleep 1000", "trap '' TERM INT; sleep 1000"] {
            let mut looks = 0;
            let given_up = output(&mut shell(text), |_| {
                looks += 1;
                looks < 10
            });
            assert!(given_up.expect("it runs").is_none(), "{text}");
        }
        let mut most = 0;
        let given_up = output(&mut shell("cat /dev/zero"), |held| {
            most = held;
            held < 1 << 20
        });
        assert!(given_up.expect("it runs").is_none());
        assert!(most < 1 << 21, "{most}");
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

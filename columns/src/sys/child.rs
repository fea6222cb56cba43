//! Child processes that end with their parent, or with the work that needs them.

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Makes `command` start in its own process group, so that Ctrl-C at a terminal reaches only the parent, and has the
/// kernel kill it when the thread that starts it ends, however it ends.
pub fn bind_to_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let at_start = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the line above, its death sends no signal.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls that are safe there (prctl and getppid), takes
    // no lock, allocates nothing, and touches only its own copy of a process id.
    unsafe { command.pre_exec(at_start) };
}

/// Sends a signal to the process group of a child. A child that has ended is not an error.
///
/// # Errors
/// The operating system's, if this process lacks the permission.
pub fn signal_group(child: &Child, signal: Signal) -> io::Result<()> {
    match rustix::process::kill_process_group(pid(child)?, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// Waits until the child has ended, without reaping it: its process id stays reserved until it is reaped.
///
/// # Errors
/// Those of `waitid`.
pub fn await_end(id: u32) -> io::Result<()> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// Poll interval while a child writes nothing: starts at `LOOK_FIRST`, doubles up to `LOOK_LAST`.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LAST: Duration = Duration::from_millis(10);

/// Runs a command to its end and returns its output, without that of processes that it leaves in the background. Calls `goes_on` repeatedly with the number of output bytes so far;
/// if it returns false, kills the process group of the child and returns `None`.
///
/// # Errors
/// The operating system's.
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
        // First whether the child has ended, then its pipes: after its end they hold all that it wrote.
        if let Some(status) = child.try_wait()? {
            take_rest(out, &mut stdout)?;
            take_rest(error, &mut stderr)?;
            return Ok(Some(Output { status, stdout, stderr }));
        }
        take_part(&mut out, &mut stdout)?;
        take_part(&mut error, &mut stderr)?;
        let held = stdout.len() + stderr.len();
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

/// Reads what a pipe holds now. Processes that the child has left in the background may write to it later: that is read and dropped, because
/// a closed pipe would end them.
fn take_rest<R: Read + AsFd + Into<OwnedFd>>(mut pipe: Option<R>, held: &mut Vec<u8>) -> io::Result<()> {
    let waiting = pipe.as_ref().map(rustix::io::ioctl_fionread).transpose()?.unwrap_or(0);
    let end = held.len().saturating_add(usize::try_from(waiting).unwrap_or(usize::MAX));
    while pipe.is_some() && held.len() < end {
        take_part(&mut pipe, held)?;
    }
    take_part(&mut pipe, held)?;
    let Some(open) = pipe else { return Ok(()) };
    drain(open.into())
}

/// Reads a pipe to its end and drops what it holds, on one thread for all of them.
fn drain(pipe: OwnedFd) -> io::Result<()> {
    static PIPES: Mutex<Option<Drain>> = Mutex::new(None);
    let mut drain = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    let drain = match &mut *drain {
        Some(drain) => drain,
        none => none.insert(Drain::start()?),
    };
    drain.new.send(pipe).map_err(|_| io::ErrorKind::BrokenPipe)?;
    rustix::io::write(&drain.wake, &[0]).map(drop).map_err(io::Error::from)
}

/// The thread that drains pipes.
struct Drain {
    new: Sender<OwnedFd>,
    /// A byte written here makes the thread look for new pipes.
    wake: OwnedFd,
}

impl Drain {
    fn start() -> io::Result<Drain> {
        let (new, pipes) = channel();
        let (woken, wake) = io::pipe()?;
        super::stack::thread("drain".into()).spawn(move || drain_all(woken.into(), &pipes))?;
        Ok(Drain { new, wake: wake.into() })
    }
}

/// Reads every pipe that has bytes. The first one wakes the thread for pipes that are new.
fn drain_all(woken: OwnedFd, new: &Receiver<OwnedFd>) {
    let mut pipes = vec![woken];
    let mut part = [0; 1 << 14];
    loop {
        let mut polled: Vec<PollFd<'_>> = pipes.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        match rustix::event::poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // The kernel has no memory for it at this moment.
            Err(_) => std::thread::sleep(LOOK_LAST),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        pipes.retain(|pipe| {
            let ends = |read| !matches!(read, Ok(1..) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR));
            !ready.next().unwrap_or(false) || !ends(rustix::io::read(pipe, &mut part))
        });
        pipes.extend(new.try_iter());
    }
}

fn never_blocks(pipe: &impl AsFd) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    Ok(fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?)
}

/// Reads what a pipe holds now, at most 16 KiB. Sets `pipe` to `None` at its end.
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
        // Closed pipes do not mean that the child has ended.
        let quiet =
            output(&mut shell("exec >&- 2>&-; sleep 0.05; exit 4"), |_| true).expect("it runs").expect("its end");
        assert_eq!(quiet.status.code(), Some(4));
    }

    #[test]
    fn processes_in_the_background_are_not_waited_for_and_live_on() {
        let mark = std::env::temp_dir().join(format!("elastick-child-{}", std::process::id()));
        let text = format!("(sleep 0.2; echo late; echo > {}) & echo now", mark.display());
        let all = output(&mut shell(&text), |_| true).expect("it runs").expect("its end");
        assert_eq!(all.stdout, b"now\n");
        assert!(!mark.exists());
        while !mark.exists() {
            std::thread::yield_now();
        }
        std::fs::remove_file(mark).expect("it was written");
    }

    #[test]
    fn processes_in_the_background_share_one_thread_that_drains_them() {
        let threads = || {
            let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process").flatten();
            let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
            names.filter(|name| name.trim() == "drain").count()
        };
        let mark = std::env::temp_dir().join(format!("elastick-drain-{}", std::process::id()));
        // More than a pipe holds: it ends only if somebody reads it.
        let text = format!("(head -c 300000 /dev/zero; echo > {0}) & (sleep 2) & echo now", mark.display());
        for _ in 0..3 {
            output(&mut shell(&text), |_| true).expect("it runs").expect("its end");
            while !mark.exists() {
                std::thread::yield_now();
            }
            std::fs::remove_file(&mark).expect("it was written");
        }
        assert_eq!(threads(), 1);
    }

    #[test]
    fn a_slow_or_noisy_command_is_killed_with_its_children() {
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

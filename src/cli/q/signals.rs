//! Signals of an interactive session: Ctrl-C, SIGTERM, SIGHUP.

use crate::sys::interrupt;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether an expression runs: Ctrl-C then stops it, not the process.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether `.z.exit` is set.
static HAS_EXIT_HANDLER: AtomicBool = AtomicBool::new(false);

/// Called by Ctrl-C while [`waiting`] runs.
static STOP: Mutex<Option<Box<dyn FnMut() + Send>>> = Mutex::new(None);

fn stop() -> MutexGuard<'static, Option<Box<dyn FnMut() + Send>>> {
    STOP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`evaluating`], for an evaluation elsewhere, whose response `work` waits for: Ctrl-C calls `end`, which makes it return.
pub fn waiting<R>(end: impl FnMut() + Send + 'static, work: impl FnOnce() -> R) -> R {
    *stop() = Some(Box::new(end));
    let result = evaluating(work);
    *stop() = None;
    result
}

/// Runs an evaluation that Ctrl-C stops with `'stop`.
pub fn evaluating<R>(work: impl FnOnce() -> R) -> R {
    interrupt::forget();
    RUNNING.store(true, Ordering::SeqCst);
    let result = work();
    RUNNING.store(false, Ordering::SeqCst);
    interrupt::forget();
    result
}

/// Runs `work` while an evaluation is suspended: Ctrl-C does not stop it then.
pub fn pausing<R>(work: impl FnOnce() -> R) -> R {
    RUNNING.store(false, Ordering::SeqCst);
    let result = work();
    interrupt::forget();
    RUNNING.store(true, Ordering::SeqCst);
    result
}

/// Called when `.z.exit` may have been set or removed.
pub fn note_exit_handler(is_set: bool) {
    HAS_EXIT_HANDLER.store(is_set, Ordering::SeqCst);
}

/// Whether this signal was ignored when the process started, as SIGHUP is under `nohup`. Read from `/proc/self/status`; `false` where there is none.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    mask >> signal.saturating_sub(1) & 1 == 1
}

/// Installs the signal handlers:
/// - SIGINT stops a running evaluation. A second SIGINT, or one while no evaluation runs, ends the process.
/// - SIGTERM ends the process. If `.z.exit` is set, the first SIGTERM instead stops a running evaluation and calls `end`, which makes the session exit.
/// - SIGHUP ends the process, unless it was started to ignore it, as by `nohup elastick q feed.q &`.
///
/// Before the process ends, the terminal settings are restored.
///
/// # Errors
/// Those of the system.
pub fn watch(end: impl Fn() + Clone + Send + 'static) -> io::Result<()> {
    let found: Option<Termios> = tcgetattr(io::stdin()).ok();
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(*signal)) {
        let (mut from_handler, to_watcher) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal, to_watcher)?;
        let (found, end) = (found.clone(), end.clone());
        crate::sys::stack::thread("signals".into()).spawn(move || {
            let mut byte = [0; 1];
            while from_handler.read_exact(&mut byte).is_ok() {
                if signal == SIGINT && RUNNING.load(Ordering::SeqCst) && !interrupt::ask() {
                    if let Some(end) = &mut *stop() {
                        end();
                    }
                    continue;
                }
                if signal == SIGTERM && HAS_EXIT_HANDLER.swap(false, Ordering::SeqCst) {
                    if RUNNING.load(Ordering::SeqCst) {
                        interrupt::ask();
                    }
                    end();
                    continue;
                }
                if let Some(found) = &found {
                    // A closed terminal needs no restore.
                    let _ = tcsetattr(io::stdin(), OptionalActions::Now, found);
                }
                std::process::exit(128 + signal);
            }
        })?;
    }
    Ok(())
}

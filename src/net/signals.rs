//! Delivers SIGTERM and SIGINT to the event loop.

use mio::Waker;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Installs handlers: the first SIGTERM or SIGINT sets the flag and wakes the loop; a second one ends the process at once.
///
/// # Errors
/// The system's.
pub fn on_termination(waker: Arc<Waker>) -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    register(waker, &[(SIGTERM, &asked), (SIGINT, &asked)])?;
    Ok(asked)
}

/// Makes a write beyond the file-size limit fail with an error; by default SIGXFSZ kills the process without a message.
pub fn take_size_limit_as_error() {
    // Without the handler such a write still kills the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Shutdown requests by signal.
#[derive(Clone, Debug)]
pub struct ShutdownRequests {
    /// SIGTERM, as from a service manager: drain first.
    pub leave: Arc<AtomicBool>,
    /// SIGINT, as from a terminal: end now.
    pub end: Arc<AtomicBool>,
}

/// As [`on_termination`], with one flag per signal: a draining process can still be ended in order with the other signal. The same signal a
/// second time ends the process at once.
///
/// # Errors
/// The system's.
pub fn on_departure(waker: Arc<Waker>) -> io::Result<ShutdownRequests> {
    let asked = ShutdownRequests { leave: Arc::default(), end: Arc::default() };
    register(waker, &[(SIGTERM, &asked.leave), (SIGINT, &asked.end)])?;
    Ok(asked)
}

fn register(waker: Arc<Waker>, flags: &[(i32, &Arc<AtomicBool>)]) -> io::Result<()> {
    let (mut from_handler, to_waker) = UnixStream::pair()?;
    for (signal, asked) in flags {
        signal_hook::flag::register_conditional_shutdown(*signal, 1, Arc::clone(asked))?;
        signal_hook::flag::register(*signal, Arc::clone(asked))?;
        signal_hook::low_level::pipe::register(*signal, to_waker.try_clone()?)?;
    }
    crate::sys::stack::thread("signals".into()).spawn(move || {
        let mut byte = [0; 1];
        while from_handler.read_exact(&mut byte).is_ok() {
            // The flag is set before the byte is written. The loop may be gone already.
            let _ = waker.wake();
        }
    })?;
    Ok(())
}

/// Whether shutdown was requested.
pub fn is_asked(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

//! SIGTERM and SIGINT as a word to the loop.

use mio::Waker;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on a request to end sets the flag and wakes the loop; a second one ends the process at once.
///
/// # Errors
/// The system's.
pub fn on_termination(waker: Arc<Waker>) -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    register(waker, &[(SIGTERM, &asked), (SIGINT, &asked)])?;
    Ok(asked)
}

/// Two ways to be asked to end.
#[derive(Clone, Debug)]
pub struct Asked {
    /// By SIGTERM, as a service manager does: there is time to leave in good order.
    pub leave: Arc<AtomicBool>,
    /// By SIGINT, as someone at a terminal does: now.
    pub end: Arc<AtomicBool>,
}

/// As [`on_termination`], with a flag for each signal: one that was asked to leave can still be asked to end in order, and
/// the same signal a second time ends the process at once.
///
/// # Errors
/// The system's.
pub fn on_departure(waker: Arc<Waker>) -> io::Result<Asked> {
    let asked = Asked { leave: Arc::default(), end: Arc::default() };
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
            // The flag is set before the byte is written. A loop that is gone needs no waking.
            let _ = waker.wake();
        }
    })?;
    Ok(())
}

/// Whether the process was asked to end.
pub fn is_asked(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

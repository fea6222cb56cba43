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
    let (mut from_handler, to_waker) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
        signal_hook::low_level::pipe::register(signal, to_waker.try_clone()?)?;
    }
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut byte = [0; 1];
        while from_handler.read_exact(&mut byte).is_ok() {
            // The flag is set before the byte is written. A loop that is gone needs no waking.
            let _ = waker.wake();
        }
    })?;
    Ok(asked)
}

/// Whether the process was asked to end.
pub fn is_asked(flag: &AtomicBool) -> bool {
    flag.load(Ordering::SeqCst)
}

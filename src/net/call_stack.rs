//! Call stacks between the processes of one user on one machine: `.Q.prf0`.
//!
//! Every process that evaluates q listens on a Unix socket without a file, named by its process number. Both ends check who the other is: the stack of
//! a process is for its own user and for root, who may read its memory anyway, and only the process that was named may answer.

use crate::q::QError;
use crate::sys::snapshot::{self, Found};
use crate::sys::stack;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{self, Pid};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Time that an evaluation has to reach a point where its stack can be read: the end of what it runs.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than [`TIMEOUT`] by what the answer may take.
const PATIENCE: Duration = Duration::from_secs(33);
const MAX_STACK_BYTES: u64 = 32 << 20;

/// First byte of an answer; the stack follows [`STACK`].
const STACK: u8 = b's';
const IDLE: u8 = b'i';
const LATE: u8 = b'l';

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("elastick-call-stack-{pid}"))
}

/// Serves the call stack of this process, from a thread of its own, until the process ends. Without the socket nobody can read it.
pub fn serve() {
    let listener = address(std::process::id()).and_then(|address| UnixListener::bind_addr(&address));
    let serving = listener.and_then(|listener| {
        stack::thread("call-stack".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(&stream) {
                    tracing::debug!(%error, "call stack not sent");
                }
            }
        })
    });
    if let Err(error) = serving {
        tracing::debug!(%error, "no process can read the call stack of this one");
    }
}

fn answer(mut stream: &UnixStream) -> io::Result<()> {
    let (asker, own) = (socket_peercred(stream)?.uid, process::getuid());
    if asker != own && !asker.is_root() {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    match snapshot::ask(TIMEOUT) {
        Found::Stack(stack) => stream.write_all(&[&[STACK], &stack[..]].concat()),
        Found::Idle => stream.write_all(&[IDLE]),
        Found::Late => stream.write_all(&[LATE]),
    }
}

/// Returns the call stack of a process as a message of kdb+'s wire format; empty if the process evaluates nothing.
///
/// # Errors
/// `No such process`; `binary mismatch` if it is no elastick process of this user; `timeout` if it did not reach a point where its stack can be read.
pub fn ask(pid: u32) -> Result<Vec<u8>, QError> {
    let mismatch = |why: &str| QError::with("binary mismatch", format!("process {pid} {why}"));
    let connected = address(pid).and_then(|address| UnixStream::connect_addr(&address));
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => {
            return Err(QError::with("No such process", format!("process {pid}")));
        }
        Err(_) => return Err(mismatch("does not serve its call stack: it is no elastick process that evaluates q")),
    };
    let named = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if named.is_none() || socket_peercred(&stream).ok().map(|server| server.pid) != named {
        return Err(mismatch("is not the one that answers"));
    }
    let mut answer = Vec::new();
    let read = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| (&mut stream).take(MAX_STACK_BYTES).read_to_end(&mut answer));
    match (read, answer.first()) {
        (Ok(_), Some(&STACK)) => Ok(answer.split_off(1)),
        (Ok(_), Some(&IDLE)) => Ok(Vec::new()),
        (Ok(_), None) => Err(mismatch("belongs to another user")),
        _ => Err(QError::with("timeout", format!("process {pid} waits, or what it runs takes long"))),
    }
}

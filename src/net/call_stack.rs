//! Call stacks between the processes of one user on one machine: `.Q.prf0`.
//!
//! Every process that evaluates q listens on a Unix socket without a file, named by its process number. A process answers only its own user and root, who
//! could read its memory anyway. The process that asks accepts an answer only from the process whose number it was given.

use crate::q::QError;
use crate::sys::snapshot::{self, Found};
use crate::sys::stack;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{self, Pid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time that an evaluation has to reach a point where its stack can be read: the end of what it runs.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than [`TIMEOUT`] by what the answer may take.
const PATIENCE: Duration = Duration::from_secs(33);
const MAX_STACK_BYTES: usize = 32 << 20;
/// Time between two looks whether the asker may wait on.
const PAUSE: Duration = Duration::from_millis(20);

/// First byte of an answer; the stack follows [`STACK`].
const STACK: u8 = b's';
const IDLE: u8 = b'i';
const LATE: u8 = b'l';

fn name(pid: u32) -> String {
    format!("elastick-call-stack-{pid}")
}

/// Serves the call stack of this process, from a thread of its own, until the process ends. Without the socket nobody can read it.
pub fn serve() {
    let address = SocketAddr::from_abstract_name(name(std::process::id()));
    let listener = address.and_then(|address| UnixListener::bind_addr(&address));
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

/// A connection to the socket of a process. It does not wait for one whose queue of connections is full.
fn connect(pid: u32) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name(pid).as_bytes())?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PAUSE))?;
    Ok(stream)
}

/// Reads an answer to its end; `None` at the deadline. `pace` is called while nothing arrives.
fn read(mut stream: &UnixStream, pace: &dyn Fn() -> Result<(), QError>) -> Result<Option<Vec<u8>>, QError> {
    let by = Instant::now() + PATIENCE;
    let (mut answer, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while Instant::now() < by {
        match stream.read(&mut part) {
            Ok(0) => return Ok(Some(answer)),
            Ok(read) if answer.len() + read <= MAX_STACK_BYTES => {
                answer.extend_from_slice(part.get(..read).unwrap_or_default());
            }
            Ok(_) => return Ok(Some(Vec::new())),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => return Ok(Some(Vec::new())),
        }
        pace()?;
    }
    Ok(None)
}

/// Returns the call stack of a process as a message of kdb+'s wire format; empty if the process evaluates nothing. `pace` is called while it waits.
///
/// # Errors
/// `No such process` if there is none with this number; `binary mismatch` if it is no elastick process or belongs to another user; `timeout` if it does
/// not answer in time, for instance during a long sort; the errors of `pace`, such as `stop` at the caller's deadline.
pub fn ask(pid: u32, pace: &dyn Fn() -> Result<(), QError>) -> Result<Vec<u8>, QError> {
    let mismatch = |why: &str| QError::with("binary mismatch", format!("process {pid} {why}"));
    let late = || QError::with("timeout", format!("process {pid} waits, or what it runs takes long"));
    let stream = match connect(pid) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late()),
        Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => {
            return Err(QError::with("No such process", format!("process {pid}")));
        }
        Err(_) => return Err(mismatch("does not serve its call stack: it is no elastick process that evaluates q")),
    };
    let (named, own) = (i32::try_from(pid).ok().and_then(Pid::from_raw), process::getuid());
    let server = socket_peercred(&stream).ok().filter(|server| Some(server.pid) == named);
    if server.is_none_or(|server| server.uid != own && !own.is_root()) {
        return Err(mismatch("is not the one that answers, or belongs to another user"));
    }
    let Some(mut answer) = read(&stream, pace)? else { return Err(late()) };
    match answer.first() {
        Some(&STACK) => Ok(answer.split_off(1)),
        Some(&IDLE) if answer.len() == 1 => Ok(Vec::new()),
        Some(&LATE) if answer.len() == 1 => Err(late()),
        None if !Path::new(&format!("/proc/{pid}")).exists() => {
            Err(QError::with("No such process", format!("process {pid} has ended")))
        }
        _ => Err(mismatch("answers with something else, or belongs to another user")),
    }
}

//! Listening sockets: TCP, and Unix sockets where kdb+ clients look for them.

use super::holder;
use super::reactor::FIRST_LISTENER;
use super::stream::Stream;
use crate::config::Listen;
use crate::points::{self, Point};
use crate::sys::os_error;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as unix;
use std::path::{Path, PathBuf};

const BACKLOG: i32 = 1024;

/// Directory of kdb+'s Unix sockets, and the variable that overrides it.
pub const SOCKETS: &str = "/tmp";
pub const SOCKETS_VARIABLE: &str = "QUDSPATH";

/// Returns the directory of Unix sockets; `None` if the variable is set and empty, which disables them.
pub fn socket_directory() -> Option<PathBuf> {
    let directory = std::env::var_os(SOCKETS_VARIABLE).unwrap_or_else(|| SOCKETS.into());
    (!directory.is_empty()).then(|| directory.into())
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that the passive service leaves to the active one when the process takes over.
pub(super) struct Kept {
    pub stream: Stream,
    /// Received so far.
    pub bytes: Vec<u8>,
    pub ip: IpAddr,
    pub local: bool,
}

/// All listening sockets of a process.
pub struct Listeners {
    listeners: Vec<Listener>,
    /// Accepted, and not served yet.
    kept: Vec<Kept>,
    port: u16,
    /// Removed on drop.
    path: Option<PathBuf>,
}

impl Listeners {
    /// Binds the first free port of `listen`.
    ///
    /// # Errors
    /// If no port of the range is free, or the address is not local; the text tells the operator what to do.
    pub fn tcp(listen: &Listen) -> io::Result<Listeners> {
        let listeners = Listeners::reserve(listen)?;
        listeners.listen(listen)?;
        Ok(listeners)
    }

    /// Takes the first free port of `listen`, so that nobody else gets it; connections are rejected until [`Listeners::listen`].
    ///
    /// # Errors
    /// As [`Listeners::tcp`].
    pub fn reserve(listen: &Listen) -> io::Result<Listeners> {
        Listeners::bound(listen).map_err(|error| io::Error::new(error.kind(), unbound(listen, &error)))
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// As [`Listeners::tcp`]: another process may have taken the port in the same moment.
    pub fn listen(&self, listen: &Listen) -> io::Result<()> {
        points::reach(Point::BeforeListen);
        let bound = self.listeners.iter().filter_map(|listener| match listener {
            Listener::Tcp(listener) => Some(listener),
            Listener::Unix(_) => None,
        });
        for listener in bound {
            let listening = rustix::net::listen(listener, BACKLOG).map_err(io::Error::from);
            listening.map_err(|error| io::Error::new(error.kind(), unbound(listen, &error)))?;
        }
        Ok(())
    }

    fn bound(listen: &Listen) -> io::Result<Listeners> {
        let host = if listen.host.is_empty() { Ipv4Addr::UNSPECIFIED.to_string() } else { listen.host.clone() };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for port in listen.first..=listen.last {
            for address in (host.as_str(), port).to_socket_addrs()? {
                match bind(address, listen.reuse) {
                    Ok(listener) => {
                        let port = listener.local_addr()?.port();
                        return Ok(Listeners {
                            listeners: vec![Listener::Tcp(listener)],
                            kept: Vec::new(),
                            port,
                            path: None,
                        });
                    }
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }

    /// The TCP port, also if the system chose it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Also listens on the Unix sockets `DIRECTORY/kx.PORT`: as an abstract name (kdb+ 3.5 and later) and as a path (older versions). A
    /// socket that cannot be bound is skipped with a warning.
    pub fn unix(&mut self, directory: &Path) {
        let path = directory.join(format!("kx.{}", self.port));
        match abstract_socket(&path) {
            Ok(listener) => self.listeners.push(Listener::Unix(listener)),
            Err(error) => tracing::warn!(path = %path.display(), %error, "no abstract Unix domain socket"),
        }
        match path_socket(&path) {
            Ok(listener) => {
                self.listeners.push(Listener::Unix(listener));
                self.path = Some(path);
            }
            Err(error) => tracing::warn!(path = %path.display(), %error, "no Unix domain socket"),
        }
    }

    /// Whether only this machine reaches the TCP ports.
    pub(super) fn are_for_this_machine(&self) -> bool {
        self.listeners.iter().all(|listener| match listener {
            Listener::Tcp(listener) => listener.local_addr().is_ok_and(|at| at.ip().to_canonical().is_loopback()),
            Listener::Unix(_) => true,
        })
    }

    /// Path of the Unix socket.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (number, listener) in self.listeners.iter_mut().enumerate() {
            let token = Token(number.saturating_add(FIRST_LISTENER));
            match listener {
                Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE)?,
                Listener::Unix(listener) => registry.register(listener, token, Interest::READABLE)?,
            }
        }
        Ok(())
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        self.kept.push(kept);
    }

    pub(super) fn kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    /// Closes the sockets: no more connections are accepted.
    pub(super) fn close(&mut self, registry: &Registry) -> io::Result<()> {
        self.deregister(registry)?;
        self.listeners.clear();
        Ok(())
    }

    /// Undoes [`Listeners::register`].
    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        for listener in &mut self.listeners {
            match listener {
                Listener::Tcp(listener) => registry.deregister(listener)?,
                Listener::Unix(listener) => registry.deregister(listener)?,
            }
        }
        Ok(())
    }

    /// Accepts the next connection: its stream, its address, and whether it comes from this machine.
    pub(super) fn accept(&mut self) -> Option<io::Result<(Stream, IpAddr, bool)>> {
        for listener in &self.listeners {
            let accepted = match listener {
                Listener::Tcp(listener) => listener.accept().map(|(stream, address)| {
                    let ip = address.ip().to_canonical();
                    let local = ip.is_loopback() || stream.local_addr().is_ok_and(|own| own.ip() == address.ip());
                    // Avoids delaying small messages (Nagle); failure only costs latency.
                    let _ = stream.set_nodelay(true);
                    let _ = sockopt::set_socket_keepalive(&stream, true);
                    (Stream::tcp(stream), ip, local)
                }),
                Listener::Unix(listener) => {
                    listener.accept().map(|(stream, _)| (Stream::unix(stream), Ipv4Addr::UNSPECIFIED.into(), true))
                }
            };
            match accepted {
                Ok(accepted) => return Some(Ok(accepted)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Describes why no port could be bound.
fn unbound(listen: &Listen, error: &io::Error) -> String {
    let Listen { host, first, last, .. } = listen;
    let on = if host.is_empty() { String::new() } else { format!(" on {host}") };
    let what = match first == last {
        true => format!("port {first}{on}"),
        false => format!("any port from {first} to {last}{on}"),
    };
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let which = match (first == last, holder::of_port(*first)) {
                (true, Some(holder)) => format!("{holder} listens there"),
                (true, None) => "another process listens there".to_string(),
                (false, _) => "other processes listen on all of them".to_string(),
            };
            format!("; {which} (`ss -ltnp` shows it): stop it, or choose another port with -p (0 for any free one)")
        }
        io::ErrorKind::AddrNotAvailable => format!("; {host} is not an address of this machine (`ip addr` lists them)"),
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one with -p".to_string()
        }
        _ if !host.is_empty() => "; is the host before the port right?".to_string(),
        _ => String::new(),
    };
    format!("cannot listen on {what}: {}{advice}", os_error::words(error))
}

fn bind(address: SocketAddr, reuse: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if reuse {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn abstract_socket(path: &Path) -> io::Result<UnixListener> {
    let name = unix::SocketAddr::from_abstract_name(path.as_os_str().as_encoded_bytes())?;
    listening(unix::UnixListener::bind_addr(&name)?)
}

fn path_socket(path: &Path) -> io::Result<UnixListener> {
    match unix::UnixListener::bind(path) {
        Ok(listener) => listening(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if unix::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            // No process accepts on it: left over from a killed one.
            std::fs::remove_file(path)?;
            listening(unix::UnixListener::bind(path)?)
        }
        Err(error) => Err(error),
    }
}

fn listening(listener: unix::UnixListener) -> io::Result<UnixListener> {
    listener.set_nonblocking(true)?;
    Ok(UnixListener::from_std(listener))
}

//! What surrounds a session: its output, its port, its command line.

use crate::runtime::error::QError;

/// Unbuffered output of an interactive session.
pub trait Output: Send + Sync {
    /// Writes to standard output; write errors are ignored.
    fn print(&mut self, text: &[u8]);
    /// Writes to standard error.
    fn print_error(&mut self, text: &[u8]);
    /// Shows a remark to a person; a program that reads the output does not see it.
    fn note(&mut self, _text: &[u8]) {}
    /// Redirects standard output (1) or standard error (2) to a file.
    ///
    /// # Errors
    /// The operating system's error, with the path.
    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError>;
}

/// The listening socket of a session.
pub trait Door: Send + Sync {
    /// Sets the listening port as `\p` does: `5010`, `host:5010`, `0` to stop.
    ///
    /// # Errors
    /// The operating system's error, with the port.
    fn listen(&mut self, text: &[u8]) -> Result<(), QError>;
    /// Listening port, 0 for none.
    fn port(&self) -> i32;
    /// The process's TLS settings: `(-26!)[]`.
    fn tls_settings(&self) -> Vec<(&'static str, String)>;
}

/// Returns the call stack of a process, see [`crate::Host::stack_of`].
pub type StackReader = fn(u32, &dyn Fn() -> Result<(), QError>) -> Result<Vec<u8>, QError>;

/// How a session was started: its command line.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// `.z.x`.
    pub arguments: Vec<Vec<u8>>,
    /// `.z.X`.
    pub command_line: Vec<Vec<u8>>,
    /// `.z.f`.
    pub script: Vec<u8>,
    /// `-q`.
    pub quiet: bool,
    /// `-b`.
    pub blocks_writes: bool,
}

//! Output of the console: the terminal, also while a line is being edited, or the files set by `\1` and `\2`.

use crate::q::QError;
use crate::q::session::Output;
use rustix::event::{PollFd, PollFlags, poll};
use rustyline::ExternalPrinter;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes a whole text. Standard output may be a pipe in non-blocking mode (`O_NONBLOCK`), as ssh and Node.js make it: while it is full, this waits.
fn write_all(out: &mut (impl Write + AsFd), text: &[u8]) -> io::Result<()> {
    let mut rest = text;
    loop {
        let step = match rest.is_empty() {
            true => out.flush().map(|()| 0),
            false => out.write(rest),
        };
        match step {
            Ok(0) if rest.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A signal ends the wait early, and the write is repeated.
                let _ = poll(&mut [PollFd::new(out, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether standard output and standard error are the same file or pipe.
fn is_one_output() -> bool {
    let place = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let (out, err) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr()));
    out.is_ok_and(|out| err.is_ok_and(|err| place(out) == place(err)))
}

/// Output shared by the console thread and the keyboard thread.
#[derive(Clone, Default)]
pub struct Screen(Arc<Mutex<Inner>>);

/// Output files and terminal state.
#[derive(Default)]
struct Inner {
    out: Option<File>,
    err: Option<File>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// A line is being edited.
    editing: bool,
    /// The reader of standard output has closed it.
    closed: bool,
    notes: Notes,
}

/// Where remarks go: a program that reads the output must not find them there.
#[derive(Clone, Copy, Debug, Default)]
pub enum Notes {
    #[default]
    Off,
    /// Behind the output, which a person reads at a terminal.
    WithOutput,
    /// To standard error.
    WithErrors,
}

impl Notes {
    /// For a console whose input is a terminal or not; `-q` keeps remarks away.
    pub fn of(terminal: bool, is_quiet: bool) -> Notes {
        match (terminal, is_quiet) {
            (_, true) => Notes::Off,
            (true, _) => Notes::WithOutput,
            (false, _) => Notes::WithErrors,
        }
    }
}

impl Screen {
    fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on prints around the line being edited.
    pub fn set_printer(&self, printer: Box<dyn ExternalPrinter + Send>) {
        self.with(|inner| inner.printer = Some(printer));
    }

    /// Sets whether a line is being edited; output then goes around it.
    pub fn set_editing(&self, editing: bool) {
        self.with(|inner| inner.editing = editing);
    }

    /// Sets where remarks go.
    pub fn set_notes(&self, notes: Notes) {
        self.with(|inner| inner.notes = notes);
    }

    /// Shows a remark.
    pub fn remark(&self, text: &[u8]) {
        self.with(|inner| match inner.notes {
            _ if inner.out.is_some() => {}
            Notes::Off => {}
            Notes::WithOutput => inner.print(text),
            // A failed write cannot be reported anywhere else.
            Notes::WithErrors => drop(std::io::stderr().write_all(text)),
        });
    }

    /// Whether the reader of standard output has closed it.
    pub fn is_closed(&self) -> bool {
        self.with(|inner| inner.closed)
    }

    /// Prints to standard output or its redirection.
    pub fn write(&self, text: &[u8]) {
        self.with(|inner| inner.print(text));
    }

    /// Prints an error: around the line being edited, to the file of `\2`, or to standard error.
    pub fn write_failure(&self, text: &[u8]) {
        self.with(|inner| {
            let is_around = inner.editing && inner.err.is_none() && inner.out.is_none();
            match is_around && io::stderr().is_terminal() {
                true => inner.print(text),
                false => inner.print_error(text),
            }
        });
    }
}

impl Inner {
    fn print(&mut self, text: &[u8]) {
        if let Some(file) = &mut self.out {
            // A failed write cannot be reported anywhere else.
            let _ = file.write_all(text);
            return;
        }
        if self.editing
            && let Some(printer) = &mut self.printer
        {
            let _ = printer.print(String::from_utf8_lossy(text).into_owned());
            return;
        }
        match write_all(&mut std::io::stdout().lock(), text) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => self.print_error(&[&QError::reported("standard output", &error).name[..], b"\n"].concat()),
        }
    }

    fn print_error(&mut self, text: &[u8]) {
        let written = match &mut self.err {
            Some(file) => file.write_all(text),
            None => write_all(&mut std::io::stderr().lock(), text),
        };
        // The reader of `elastick q 2>&1 | head` has closed the pipe: the session ends. Any other failure to write an error cannot be reported.
        let is_closed = written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        self.closed |= is_closed && self.err.is_none() && is_one_output();
    }
}

impl Output for Screen {
    fn print(&mut self, text: &[u8]) {
        self.write(text);
    }

    fn print_error(&mut self, text: &[u8]) {
        self.with(|inner| inner.print_error(text));
    }

    fn note(&mut self, text: &[u8]) {
        self.remark(text);
    }

    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError> {
        let path = Path::new(OsStr::from_bytes(path));
        let file = match path.to_str() {
            // As documented, this name restores the terminal.
            Some("/dev/stdin") => None,
            _ => {
                let folders = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                let file = folders.and_then(|()| File::options().append(true).create(true).open(path));
                Some(file.map_err(|error| QError::reported(path.display(), &error))?)
            }
        };
        self.with(|inner| match stream {
            1 => inner.out = file,
            _ => inner.err = file,
        });
        Ok(())
    }
}

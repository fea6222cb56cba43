//! Output of the console: the terminal, also while a line is being edited, or the files set by `\1` and `\2`.

use crate::q::QError;
use crate::q::session::Output;
use rustyline::ExternalPrinter;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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

    /// Prints an error: to the redirected standard error, or else to standard output, in place of the expression's result.
    pub fn write_failure(&self, text: &[u8]) {
        self.with(|inner| match &mut inner.err {
            // A failed write cannot be reported anywhere else.
            Some(file) => drop(file.write_all(text)),
            None => inner.print(text),
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
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(text).and_then(|()| stdout.flush()).is_err() {
            self.closed = true;
        }
    }
}

impl Output for Screen {
    fn print(&mut self, text: &[u8]) {
        self.write(text);
    }

    fn print_error(&mut self, text: &[u8]) {
        self.with(|inner| {
            let written = match &mut inner.err {
                Some(file) => file.write_all(text),
                None => std::io::stderr().write_all(text),
            };
            // A failed write cannot be reported anywhere else.
            drop(written);
        });
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
                let words = |e: std::io::Error| format!("{}. OS reports: {e}", path.display());
                Some(file.map_err(|e| QError::signal(words(e).into_bytes()))?)
            }
        };
        self.with(|inner| match stream {
            1 => inner.out = file,
            _ => inner.err = file,
        });
        Ok(())
    }
}

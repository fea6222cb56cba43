//! Where a console prints: the terminal, also while a line is being edited there, or files that `\1` and `\2` name.

use crate::q::QError;
use crate::q::session::Output;
use rustyline::ExternalPrinter;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What the console's thread and the keyboard's share.
#[derive(Clone, Default)]
pub struct Screen(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    out: Option<File>,
    err: Option<File>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// A line is being edited.
    editing: bool,
    /// Nobody reads standard output any more.
    closed: bool,
}

impl Screen {
    fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints around the line that is being edited from now on.
    pub fn set_printer(&self, printer: Box<dyn ExternalPrinter + Send>) {
        self.with(|inner| inner.printer = Some(printer));
    }

    pub fn set_editing(&self, editing: bool) {
        self.with(|inner| inner.editing = editing);
    }

    /// Whether nobody reads standard output any more.
    pub fn is_closed(&self) -> bool {
        self.with(|inner| inner.closed)
    }

    pub fn write(&self, text: &[u8]) {
        self.with(|inner| inner.print(text));
    }

    /// An error: to where standard error was sent, or else to standard output, where its expression's answer would stand.
    pub fn write_failure(&self, text: &[u8]) {
        self.with(|inner| match &mut inner.err {
            // A file that takes nothing has nobody to tell.
            Some(file) => drop(file.write_all(text)),
            None => inner.print(text),
        });
    }
}

impl Inner {
    fn print(&mut self, text: &[u8]) {
        if let Some(file) = &mut self.out {
            // A file that takes nothing has nobody to tell.
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
            // Without standard error there is nobody to tell.
            drop(written);
        });
    }

    fn redirect(&mut self, stream: u8, path: &[u8]) -> Result<(), QError> {
        let path = Path::new(OsStr::from_bytes(path));
        let file = match path.to_str() {
            // As documented, this name means the terminal again.
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

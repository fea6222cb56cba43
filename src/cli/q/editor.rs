//! Line editing at a terminal: history, completion, multi-line paste.

use super::completion::Known;
use super::input::{Prompt, Typed};
use super::output::Screen;
use crate::q::script;
use rustix::termios::{LocalModes, tcgetattr};
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::cell::Cell;
use std::path::PathBuf;

/// Lines kept in the history.
const HISTORY_LINES: usize = 10_000;

/// Completes the word before the cursor.
#[derive(Default)]
struct Names {
    known: Known,
    /// The line that is being edited is not empty.
    has_text: Cell<bool>,
}

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.known.complete(line, at))
    }
}

impl Hinter for Names {
    type Hint = String;

    /// Gives no hint: it is called with the line at each key.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_text.set(!line.is_empty());
        None
    }
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

/// A terminal with line editing.
pub struct Editing {
    editor: Editor<Names, DefaultHistory>,
    history: Option<PathBuf>,
}

/// `$XDG_STATE_HOME/elastick/q_history`, else `~/.elastick_q_history`.
fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match folder("XDG_STATE_HOME") {
        Some(state) => {
            let own = state.join("elastick");
            std::fs::create_dir_all(&own).ok()?;
            Some(own.join("q_history"))
        }
        None => folder("HOME").map(|home| home.join(".elastick_q_history")),
    }
}

/// Whether a program types the lines. `expect` and notebooks turn the echo off and read everything as results; `rlwrap` edits lines itself, and
/// warns its user about a program that reads single keys.
fn is_driven() -> bool {
    let is_silent = tcgetattr(std::io::stdin()).is_ok_and(|settings| !settings.local_modes.contains(LocalModes::ECHO));
    let parent = std::os::unix::process::parent_id();
    is_silent || std::fs::read(format!("/proc/{parent}/comm")).is_ok_and(|name| name.trim_ascii_end() == b"rlwrap")
}

impl Editing {
    /// Returns `None` if the terminal does not support line editing, or if a program at its other end does the editing.
    pub fn new(screen: &Screen) -> Option<Editing> {
        if is_driven() {
            return None;
        }
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
        let mut editor = Editor::<Names, DefaultHistory>::with_config(config).ok()?;
        editor.set_max_history_size(HISTORY_LINES).ok()?;
        editor.set_helper(Some(Names::default()));
        let history = history_file();
        if let Some(file) = &history {
            // The first session has no history file.
            let _ = editor.load_history(file);
        }
        if let Ok(printer) = editor.create_external_printer() {
            screen.set_printer(Box::new(printer));
        }
        Some(Editing { editor, history })
    }

    /// Reads a line, or several pasted lines.
    pub fn line(&mut self, prompt: Prompt) -> Typed {
        if let Some(names) = self.editor.helper_mut() {
            names.known = prompt.known;
            names.has_text.set(false);
        }
        match self.editor.readline(&prompt.text) {
            Ok(text) => {
                if !text.trim().is_empty() && self.editor.add_history_entry(text.as_str()).unwrap_or(false) {
                    self.keep();
                }
                Typed::Text(expressions(&text))
            }
            // Ctrl-C on a line with text only drops the line.
            Err(ReadlineError::Interrupted) if self.editor.helper().is_some_and(|names| names.has_text.get()) => {
                Typed::Text(Vec::new())
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        }
    }

    /// Written after each line, because a session may be killed.
    fn keep(&mut self) {
        if let Some(file) = &self.history
            && self.editor.append_history(file).is_err()
        {
            // A history that cannot be written must not disturb the session.
            self.history = None;
        }
    }
}

fn expressions(text: &str) -> Vec<Vec<u8>> {
    if text.contains('\n') {
        return script::expressions(text.as_bytes()).into_iter().map(|(_, expression)| expression).collect();
    }
    vec![text.as_bytes().to_vec()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_lines_are_expressions_as_in_a_script() {
        assert_eq!(expressions("f:{\n x+1}\nf 1"), [&b"f:{\n x+1}"[..], b"f 1"]);
        assert_eq!(expressions(" 1+1"), [b" 1+1"]);
    }
}

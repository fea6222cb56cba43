//! Keyboard thread: reads a line on request, from a terminal with editing or from a pipe.

use super::completion::Known;
use super::editor::Editing;
use super::output::Screen;
use crate::q::script;
use std::io::{BufRead, IsTerminal};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Input from the keyboard.
#[derive(Debug)]
pub enum Typed {
    /// Expressions, one per item.
    Text(Vec<Vec<u8>>),
    /// Ctrl-C, on an empty or a non-empty line.
    Interrupted,
    End,
}

/// Prompt of the next line.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    pub text: String,
    /// For Tab completion.
    pub known: Known,
}

/// Handle of the keyboard thread.
pub struct Keyboard {
    prompts: Sender<Prompt>,
}

impl Keyboard {
    /// Starts the thread, which calls `on_input` with each input.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        terminal: bool,
        screen: Screen,
        on_input: impl Fn(Typed) + Send + 'static,
    ) -> std::io::Result<Keyboard> {
        let (prompts, requests) = channel();
        crate::sys::stack::thread("keyboard".into()).spawn(move || {
            // Lines are edited where they are seen: `elastick q | tee session.log` gets no escape sequences.
            if terminal
                && std::io::stdout().is_terminal()
                && let Some(mut editing) = Editing::new(&screen)
            {
                while let Ok(prompt) = requests.recv() {
                    screen.set_editing(true);
                    let typed = editing.line(prompt);
                    screen.set_editing(false);
                    on_input(typed);
                }
                return;
            }
            pipe(&requests, terminal.then_some(&screen), &on_input);
        })?;
        Ok(Keyboard { prompts })
    }

    /// Requests the next line.
    pub fn request(&self, prompt: Prompt) {
        // An ended thread has already sent the end of input.
        let _ = self.prompts.send(prompt);
    }
}

/// Reads lines of standard input; prompts go to `screen`, which only a terminal without editing has. They are no output: as in kdb+, `q)` is written to
/// standard error.
fn pipe(requests: &Receiver<Prompt>, screen: Option<&Screen>, on_input: &impl Fn(Typed)) {
    let mut reader = script::Lines::default();
    let mut ended = false;
    while let Ok(prompt) = requests.recv() {
        if let Some(screen) = screen {
            screen.write_failure(prompt.text.as_bytes());
        }
        let mut ready = None;
        while ready.is_none() && !ended {
            let mut line = Vec::new();
            // Unlock between lines: `read0 0` reads the same input.
            match std::io::stdin().lock().read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => ended = true,
                Ok(_) => ready = reader.push(&line),
            }
        }
        let rest = ready.or_else(|| reader.finish());
        on_input(rest.map_or(Typed::End, Typed::Text));
    }
}

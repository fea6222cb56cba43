//! The keyboard: a thread that reads a line when it is asked for one, from a terminal with editing, or from a pipe.

use super::editor::Editing;
use super::output::Screen;
use crate::q::script;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What was typed.
#[derive(Debug)]
pub enum Typed {
    /// Expressions, one for each text.
    Text(Vec<Vec<u8>>),
    /// Ctrl-C with something on the line, or without.
    Interrupted,
    End,
}

/// What the next line is asked with.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    pub text: String,
    /// Names that Tab completes.
    pub names: Vec<String>,
}

/// Where lines are asked for.
pub struct Keyboard {
    ask: Sender<Prompt>,
}

impl Keyboard {
    /// Starts the thread; `tell` is called on it with each thing that was typed.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(terminal: bool, screen: Screen, tell: impl Fn(Typed) + Send + 'static) -> std::io::Result<Keyboard> {
        let (ask, asked) = channel();
        crate::sys::stack::thread("keyboard".into()).spawn(move || {
            if terminal && let Some(mut editing) = Editing::new(&screen) {
                while let Ok(prompt) = asked.recv() {
                    screen.set_editing(true);
                    let typed = editing.line(prompt);
                    screen.set_editing(false);
                    tell(typed);
                }
                return;
            }
            pipe(&asked, terminal.then_some(&screen), &tell);
        })?;
        Ok(Keyboard { ask })
    }

    /// Asks for the next line.
    pub fn ask(&self, prompt: Prompt) {
        // A thread that is gone has said so by an end of input.
        let _ = self.ask.send(prompt);
    }
}

/// Lines of standard input; prompts go to `screen`, which a terminal that cannot be edited on has.
fn pipe(asked: &Receiver<Prompt>, screen: Option<&Screen>, tell: &impl Fn(Typed)) {
    let mut reader = script::Lines::default();
    let mut ended = false;
    while let Ok(prompt) = asked.recv() {
        if let Some(screen) = screen {
            screen.write(prompt.text.as_bytes());
        }
        let mut ready = None;
        while ready.is_none() && !ended {
            let mut line = Vec::new();
            // Not locked between lines: `read0 0` reads the same input.
            match std::io::stdin().lock().read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => ended = true,
                Ok(_) => ready = reader.push(&line),
            }
        }
        let rest = ready.or_else(|| reader.finish());
        tell(rest.map_or(Typed::End, Typed::Text));
    }
}

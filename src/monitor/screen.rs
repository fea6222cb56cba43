//! Output of the cluster's view: a terminal, refreshed in place, or a line every few seconds.

use super::lines::{self, Style};
use super::view::ClusterView;
use std::io::{self, IsTerminal, Stdout, Write};
use std::time::{Duration, Instant};

/// Interval of lines if the output is not a terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(3);
const OWN_PAGE: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Draws views until dropped, which restores the terminal.
#[derive(Debug)]
pub struct Screen {
    out: Stdout,
    terminal: bool,
    last_line: Option<Instant>,
}

impl Screen {
    /// Switches the terminal to its own page, if standard output is a terminal.
    ///
    /// # Errors
    /// Those of writing to standard output.
    pub fn open() -> io::Result<Screen> {
        let mut out = io::stdout();
        let terminal = out.is_terminal();
        if terminal {
            out.write_all(OWN_PAGE.as_bytes())?;
            out.flush()?;
        }
        Ok(Screen { out, terminal, last_line: None })
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Draws a view.
    ///
    /// # Errors
    /// Those of writing to standard output.
    pub fn draw(&mut self, view: &ClusterView) -> io::Result<()> {
        if self.terminal {
            return self.draw_page(view);
        }
        if self.last_line.is_none_or(|last| last.elapsed() >= PLAIN_INTERVAL) {
            self.last_line = Some(Instant::now());
            writeln!(self.out, "{}", lines::summary(view))?;
        }
        Ok(())
    }

    fn draw_page(&mut self, view: &ClusterView) -> io::Result<()> {
        let (columns, rows) = size(&self.out);
        let mut page = String::from("\x1b[H");
        for line in lines::screen(view, columns, Style::Colour).iter().take(rows) {
            page.push_str(line);
            page.push_str("\x1b[K\r\n");
        }
        // A line end after the last line would scroll the page.
        page.truncate(page.trim_end_matches("\r\n").len());
        page.push_str("\x1b[J");
        self.out.write_all(page.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal {
            // The terminal may be gone.
            let _ = self.out.write_all(LEAVE.as_bytes());
            let _ = self.out.flush();
        }
    }
}

fn size(out: &Stdout) -> (usize, usize) {
    match rustix::termios::tcgetwinsize(out) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (usize::from(size.ws_col), usize::from(size.ws_row)),
        _ => (100, 50),
    }
}

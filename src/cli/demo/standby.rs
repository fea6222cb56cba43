//! The passive tickerplant of `--kill-tick`, and its take-over.

use super::processes::{Process, number_after};
use super::users::DemoUsers;
use crate::cli::CliError;
use crate::monitor::text::span;
use crate::net::Client;
use proto::Limits;
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for one answer, and interval between looks.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A passive tickerplant.
pub struct Standby {
    process: Process,
    port: u16,
}

/// What the death of the active tickerplant cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TakeOver {
    /// When it was killed, in the simulated day.
    pub day_ns: u64,
    /// From then to the first update that the other one accepted.
    pub took_ns: u64,
}

impl TakeOver {
    pub fn took(&self) -> String {
        span(self.took_ns)
    }
}

impl Standby {
    /// Starts it with the arguments of the active one.
    pub fn start(dir: &Path, arguments: &[OsString]) -> Result<Standby, CliError> {
        let output = dir.join("passive.out");
        let mut process = Process::start("passive tickerplant", dir, Some(&output), arguments)?;
        let port = number_after(&mut process, &output, "is passive on")?;
        Ok(Standby { process, port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until it has accepted an update after the active one was killed. Returns process, port, and how long that took.
    pub fn takes_over(mut self, users: &DemoUsers, within: Duration) -> Result<(Process, u16, Duration), CliError> {
        let began = Instant::now();
        let address = users.address(self.port);
        let mut first = None;
        while began.elapsed() < within {
            self.process.must_run()?;
            // While it is passive it refuses the query.
            let client = Client::connect(&address, ANSWER_WITHIN, Limits::default());
            let tip = client.ok().and_then(|mut client| client.query(".u.j").ok()?.as_long());
            match (tip, first) {
                (Some(tip), Some(first)) if tip > first => return Ok((self.process, self.port, began.elapsed())),
                (Some(tip), None) => first = Some(tip),
                _ => {}
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(CliError::Failed(format!("the passive tickerplant has accepted no update within {within:?}")))
    }
}

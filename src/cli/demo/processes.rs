//! Child processes of the demo: all run this binary and end with the demo.

use crate::cli::CliError;
use crate::sys::child::{bind_to_parent, signal_group};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time for a process to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(8);

/// A child process, killed on drop.
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `elastick ARGUMENTS`. Its standard error goes to `DIR/NAME.log`, its standard output to `output` or the same file.
    pub fn start(
        name: &'static str,
        dir: &Path,
        output: Option<&Path>,
        arguments: &[OsString],
    ) -> Result<Process, CliError> {
        let failed = |error: std::io::Error| CliError::Failed(format!("cannot start the {name}: {error}"));
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).map_err(failed)?;
        let stdout = match output {
            Some(path) => File::create(path).map_err(failed)?,
            None => file.try_clone().map_err(failed)?,
        };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(file);
        bind_to_parent(&mut command);
        Ok(Process { name, child: command.spawn().map_err(failed)?, log })
    }

    /// Returns the exit status; `None` while the process runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, CliError> {
        self.child.try_wait().map_err(CliError::failed)
    }

    /// Returns an error if the process has ended.
    pub fn must_run(&mut self) -> Result<(), CliError> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.failure(status)),
        }
    }

    /// Returns the error for a process that ended unexpectedly, with the last lines of its log.
    pub fn failure(&self, status: ExitStatus) -> CliError {
        let text = std::fs::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default().join("\n  ");
        CliError::Failed(format!("the {} exited ({status}):\n  {last}", self.name))
    }

    /// Sends SIGTERM.
    pub fn request_end(&self) {
        // Errors do not matter: the process may be gone already, and otherwise drop kills it.
        let _ = signal_group(&self.child, Signal::TERM);
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        // It may be gone already.
        let _ = signal_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }

    /// Sends SIGTERM and waits; kills the process after the grace period.
    pub fn stop(&mut self) {
        self.request_end();
        let by = Instant::now().checked_add(GRACE);
        while by.is_some_and(|by| Instant::now() < by) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        tracing::warn!(process = %self.name, "the process did not exit after SIGTERM; killing it");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
        }
    }
}

/// Returns the number after `before` in the first line of a file that has one; waits for that line while the process runs.
pub fn number_after(process: &mut Process, file: &Path, before: &str) -> Result<u16, CliError> {
    loop {
        let lines = BufReader::new(File::open(file).map_err(CliError::failed)?).lines().map_while(Result::ok);
        for line in lines {
            let rest = line.split_once(before).map(|(_, rest)| rest.trim_start());
            let digits = rest.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
            if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
                return Ok(number);
            }
        }
        process.must_run()?;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Directory that is removed on drop, unless the operator named it.
pub struct Directory {
    path: PathBuf,
    kept: bool,
}

impl Directory {
    /// Creates the directory, by default a temporary one.
    pub fn open(named: Option<PathBuf>) -> Result<Directory, CliError> {
        let kept = named.is_some();
        let path = match named {
            Some(path) => path,
            None => std::env::temp_dir().join(format!("elastick-demo-{}", std::process::id())),
        };
        let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(&path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        Ok(Directory { path, kept })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the directory");
        }
    }
}

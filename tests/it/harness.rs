//! Test helpers: processes, temporary directories, polling.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Deadline of all polls; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command of the binary under test.
pub fn elastick(arguments: &[&str]) -> Command {
    let mut command = match std::env::var_os("ELASTICK_BIN") {
        Some(path) => Command::new(path),
        None => Command::new(env!("CARGO_BIN_EXE_elastick")),
    };
    command.args(arguments).env("ELASTICK_LOG", "warn");
    // A tester's own profile is no part of a test.
    command.env_remove("QINIT").env_remove("QHOME");
    command
}

/// A process that is killed at the end of its test.
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the process starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Process { child, output }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first match of `wanted` in the lines of its output.
    pub fn line<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> T {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("its output is text");
            assert!(read > 0, "the output ended without what was wanted:\n{seen}");
            if let Some(found) = wanted(line.trim_end()) {
                return found;
            }
            seen.push_str(&line);
        }
    }

    /// The number after `before` in a line of its output.
    pub fn number_after(&mut self, before: &str) -> u16 {
        self.line(|line| {
            let rest = line.split_once(before)?.1.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        })
    }

    /// Its standard error, if the command pipes it; for the first caller.
    pub fn errors(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("its errors are piped")
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        signal(self.child.id(), "TERM");
        wait_for("the process to end", || self.child.try_wait().expect("it can be waited for"))
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by its short name.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.expect("kill runs").success(), "no signal to {process}");
}

/// Whether a process exists and is no zombie.
pub fn is_running(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Polls until `found` returns a value.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let by = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < by, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the text of a tickerplant's `/health` without what it says of a disk that is nearly full: the tests must pass on such a machine too.
pub fn without_disk(health: &str) -> String {
    const DISK: (&str, &str) = ("the log's file system has ", "free space there; ");
    let Some((before, disk)) = health.split_once(DISK.0) else { return health.to_string() };
    let Some((_, after)) = disk.split_once(DISK.1) else { return health.to_string() };
    // The page ends with what the process does, which begins with a count of updates.
    let is_healthy = before.ends_with("degraded: ")
        && after.split_once(' ').is_some_and(|(count, text)| {
            count.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b',')) && text.starts_with("updates today")
        });
    match is_healthy {
        true => format!("{}ok: {after}", before.trim_end_matches("degraded: ")),
        false => format!("{before}{after}"),
    }
}

/// A directory that is removed at the end of its test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("elastick-it-{name}-{}", std::process::id()));
        // An earlier test that was killed may have left it.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

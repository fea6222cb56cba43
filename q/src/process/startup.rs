//! Start-up files of a server: q scripts of the owner, evaluated before the server accepts connections.

use crate::io::files::locked;
use crate::io::handles::Handles;
use crate::process::entry::eval_line;
use crate::process::script;
use crate::process::session::{Session, Start};
use crate::runtime::author::OfOwner;
use crate::runtime::console::Console;
use crate::runtime::error::{Origin, QError};
use crate::runtime::host::{Host, Setting};
use crate::runtime::limits::Limits;
use crate::runtime::settings;
use crate::runtime::settings::Settings;
use columns::table::{Sym, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Definitions and settings made by start-up files.
pub struct Startup {
    /// Names and values, including handlers (`.z.pg`, …), in order of definition.
    pub globals: Vec<(Sym, Value)>,
    /// `\t`, in milliseconds.
    pub timer_ms: u64,
    /// `\s`.
    pub threads: usize,
    /// `\c` and `\P`.
    pub console: Console,
    /// `\z` and `\W`.
    pub settings: Settings,
    /// The files, and those that they have loaded, as absolute paths.
    pub files: Vec<PathBuf>,
}

/// Why start-up failed.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    #[error("{path}: {error}", path = .path.display())]
    File { path: PathBuf, error: std::io::Error },
    /// An expression failed; `line` is its first line, from 1.
    #[error("{path}, line {line}:\n{shown}", path = .path.display(), shown = shown(.error))]
    Expression { path: PathBuf, line: usize, error: QError },
    /// The files define a handler that this process never calls; the text says what to use instead.
    #[error("{0}")]
    NeverCalled(String),
    /// The files called `exit`.
    #[error("exit {0}")]
    Exit(i32),
}

fn shown(error: &QError) -> String {
    String::from_utf8_lossy(&error.shown()).trim_end().to_string()
}

/// Evaluates `\` commands, then files in order, with the rights of the owner. `print` receives their output.
///
/// # Errors
/// A file that cannot be read, an expression that fails, or a call of `exit`.
pub fn load(
    commands: &[String],
    files: &[PathBuf],
    handles: Arc<Handles>,
    threads: usize,
    mut print: impl FnMut(&[u8]),
) -> Result<Startup, StartupError> {
    let _of_owner = OfOwner::begin();
    let mut session = Session::of_owner(Start::default(), handles).with_threads(threads);
    for command in commands {
        let result = eval_line(&mut session, command.as_bytes(), &Limits::default());
        let path = PathBuf::from("options of the language");
        if let Some(code) = session.exited() {
            return Err(StartupError::Exit(code));
        }
        result.map_err(|error| StartupError::Expression { path, line: 1, error })?;
    }
    let own: Vec<PathBuf> = files.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    for path in files {
        let result = run(path, &mut session, &mut print);
        // `\d` in a file does not carry over to the next.
        let _ = session.set_namespace(Sym::NULL);
        session.loading(None);
        if let Some(code) = session.exited() {
            return Err(StartupError::Exit(code));
        }
        result?;
    }
    Ok(Startup {
        globals: session.globals().map(|(name, value)| (name, value.clone())).collect(),
        timer_ms: u64::try_from(session.setting(Setting::Timer)).unwrap_or(0),
        threads: session.threads().now,
        console: session.console_now(),
        settings: settings::settings(),
        files: session
            .loaded()
            .filter(|path| !own.iter().any(|own| own == path))
            .map(Path::to_path_buf)
            .chain(own.clone())
            .collect(),
    })
}

fn run(path: &Path, session: &mut Session, print: &mut impl FnMut(&[u8])) -> Result<(), StartupError> {
    let text = std::fs::read(path)
        .and_then(|bytes| locked::unpacked(path, bytes))
        .map_err(|error| StartupError::File { path: path.to_path_buf(), error })?;
    let full: Arc<[u8]> = {
        use std::os::unix::ffi::OsStrExt;
        let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        full.as_os_str().as_bytes().into()
    };
    for (line, expression) in script::expressions_of(path, &text) {
        // Paths and modules relative to the script.
        session.loading(Some(Origin { file: full.clone(), line: u32::try_from(line).unwrap_or(u32::MAX), column: 0 }));
        let result =
            eval_line(session, &expression, &Limits { deadline: None, memory_bytes: u64::MAX, ..Limits::default() });
        let printed = session.take_printed();
        if !printed.is_empty() {
            print(&printed);
        }
        result.map_err(|error| StartupError::Expression { path: path.to_path_buf(), line, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use columns::table::symbol;

    struct File(PathBuf);

    impl File {
        fn new(name: &str, text: &str) -> File {
            let path = std::env::temp_dir().join(format!("elastick-startup-{}-{name}.q", std::process::id()));
            std::fs::write(&path, text).expect("written");
            File(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn loaded(files: &[&File]) -> Result<Startup, StartupError> {
        let paths: Vec<PathBuf> = files.iter().map(|file| file.0.clone()).collect();
        load(&["\\z 1".to_string()], &paths, Arc::default(), 4, |_| {})
    }

    #[test]
    fn later_files_see_what_earlier_ones_define() {
        let one = File::new("one", "\\d .a\nf:{x*\n  2}\n\\d .\n\\t 500\n\\s 2\n");
        let two = File::new("two", "v:.a.f 21\n.z.pg:{value x}\n");
        let startup = loaded(&[&one, &two]).expect("loads");
        let names: Vec<&[u8]> = startup.globals.iter().map(|(name, _)| symbol::text(*name)).collect();
        assert_eq!(names, [&b".a.f"[..], b"v", b".z.pg"]);
        assert!(matches!(startup.globals.get(1), Some((_, Value::Long(42)))));
        assert_eq!((startup.timer_ms, startup.threads), (500, 2));
    }

    #[test]
    fn an_error_is_shown_with_file_line_and_caret() {
        let file = File::new("bad", "a:1\n\n/ more\nb:1+`x\n");
        let Err(error) = loaded(&[&file]) else { panic!("it loads") };
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.first().is_some_and(|line| line.ends_with("bad.q, line 4:")), "{text}");
        let error = "'type (+ was given a long and a symbol)";
        assert_eq!(lines.get(1..), Some(&[error, "  [0]  b:1+`x", "          ^"][..]), "{text}");
    }

    #[test]
    fn modules_and_paths_beside_a_start_up_file_are_found() {
        let module = File::new("module", "export:([f:{x+1}])\n");
        let stem = module.0.with_extension("");
        let name = stem.file_name().and_then(|name| name.to_str()).expect("a name");
        let file = File::new("uses", &format!("m:use`$\"..{name}\"\nv:m.f 1\np:.Q.rp\"::x\"\n"));
        let startup = loaded(&[&file]).expect("loads");
        let value =
            |name: &[u8]| startup.globals.iter().find(|(n, _)| symbol::text(*n) == name).map(|(_, value)| value);
        assert!(matches!(value(b"v"), Some(Value::Long(2))));
        assert!(
            value(b"p").and_then(Value::as_text).is_some_and(|path| path.starts_with(b"/") && path.ends_with(b"/x"))
        );
        assert_eq!(startup.files.len(), 2, "{:?}", startup.files);
    }

    #[test]
    fn an_exit_is_no_error_of_the_file() {
        let file = File::new("exit", "exit 3\n");
        assert!(matches!(loaded(&[&file]), Err(StartupError::Exit(3))));
    }

    #[test]
    fn an_exit_in_a_command_needs_no_file() {
        let ended = load(&["exit 4".to_string()], &[], Arc::default(), 1, |_| {});
        assert!(matches!(ended, Err(StartupError::Exit(4))));
    }
}

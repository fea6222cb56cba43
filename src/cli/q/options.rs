//! Command line of q: a file, options of the language, and the script's own arguments.

use crate::cli::CliError;
use crate::config::{Addresses, TlsMode, units};
use crate::net::sites::Sites;
use crate::q::session::Start;

/// Parsed command line.
#[derive(Debug, Default)]
pub struct QOptions {
    /// Script, or address of another process.
    pub target: Option<String>,
    pub start: Start,
    pub threads: Option<usize>,
    /// `-s -N`: `peach` uses the processes of `.z.pd`.
    pub processes: usize,
    /// Options of the language as `\` commands, in order.
    pub commands: Vec<String>,
    /// `-w`, in MB.
    pub workspace_mb: Option<u64>,
    /// `-c` was given, so the window's size is ignored.
    pub sized: bool,
    /// `-p`.
    pub port: Option<String>,
    /// `-u` or `-U`: path of a user file.
    pub users: Option<String>,
    /// Clients have the rights of the console: `-u 0`, or `-U` with kdb+'s users file, unless `-u` restricts them.
    pub trusts_clients: bool,
    /// `-E`.
    pub tls: Option<TlsMode>,
    /// Web pages that may send requests.
    pub sites: Sites,
    /// Options given that have a meaning for a local session only.
    local_only: Vec<String>,
}

impl QOptions {
    /// Parses the command line.
    ///
    /// # Errors
    /// An option without its value, with an invalid value, or that is not supported.
    pub fn read(words: &[String]) -> Result<QOptions, CliError> {
        let mut options = QOptions::default();
        options.start.command_line =
            std::iter::once(&"q".to_owned()).chain(words).map(|w| w.as_bytes().to_vec()).collect();
        let mut words = words.iter();
        let (mut is_restricted, mut has_users) = (false, false);
        while let Some(word) = words.next() {
            let letter = match word.as_bytes() {
                [b'-', letter] => *letter,
                _ => b' ',
            };
            // The first word that is neither an option nor its value, unless it belongs to an option of the script's own.
            if !word.starts_with('-') && options.target.is_none() && options.start.arguments.is_empty() {
                options.target = Some(word.clone());
                options.start.script = word.as_bytes().to_vec();
                continue;
            }
            if b"beEgosStTWzwpuU".contains(&letter) {
                options.local_only.push(word.clone());
            }
            let mut value = || words.next().cloned().ok_or_else(|| CliError::Usage(format!("{word} needs a value")));
            match letter {
                b'b' => options.start.blocks_writes = true,
                b'q' => options.start.quiet = true,
                b'c' | b'C' => {
                    let (rows, columns) = (number(word, &value()?)?, number(word, &value()?)?);
                    options.sized |= letter == b'c';
                    options.commands.push(format!("{} {rows} {columns}", char::from(letter)));
                }
                b'e' | b'g' | b'o' | b'P' | b'S' | b't' | b'T' | b'W' | b'z' => {
                    let number = number(word, &value()?)?;
                    options.commands.push(format!("{} {number}", char::from(letter)));
                }
                b's' => {
                    let count = number(word, &value()?)?;
                    options.threads = Some(usize::try_from(count).unwrap_or(0));
                    options.processes = if count < 0 { usize::try_from(count.unsigned_abs()).unwrap_or(1) } else { 0 };
                }
                b'w' => options.workspace_mb = u64::try_from(number(word, &value()?)?).ok(),
                b'p' => options.port = Some(value()?),
                b'u' => {
                    let users = value()?;
                    options.trusts_clients = users == "0";
                    is_restricted |= users != "0";
                    options.users = Some(users).filter(|users| users != "0" && users != "1").or(options.users.take());
                }
                b'U' => {
                    let users = value()?;
                    has_users |= !users.ends_with(".toml");
                    options.users = Some(users);
                }
                b'E' => {
                    let mode = units::tls(&value()?).map_err(|error| CliError::Usage(format!("{word} {error}")))?;
                    options.tls = Some(mode);
                }
                b'l' | b'L' | b'm' | b'r' => {
                    return Err(CliError::Usage(format!(
                        "{word} is not supported by this console; see elastick q --help"
                    )));
                }
                _ => options.start.arguments.push(word.as_bytes().to_vec()),
            }
        }
        // kdb+'s rule. Users of a TOML file have roles, which say what they may do.
        options.trusts_clients |= has_users && !is_restricted;
        Ok(options)
    }

    /// Checks that no argument is an option of two dashes, which nothing reads without a script.
    ///
    /// # Errors
    /// The first such argument.
    pub fn rejects_long_options(&self) -> Result<(), CliError> {
        match self.start.arguments.iter().find(|word| word.len() > 2 && word.starts_with(b"--")) {
            None => Ok(()),
            Some(word) => Err(unknown_option(word)),
        }
    }

    /// Checks that no argument of a session without a script is an address: it stands behind an unknown option, and nothing connects to it.
    ///
    /// # Errors
    /// The first such argument.
    pub fn rejects_addresses(&self) -> Result<(), CliError> {
        let is_address = |word: &&Vec<u8>| {
            let address = std::str::from_utf8(word).ok().filter(|word| word.contains(':'));
            // `12:30` is a time.
            let addresses = address.and_then(|word| word.parse::<Addresses>().ok());
            addresses.is_some_and(|all| all.iter().any(|address| address.host.parse::<u64>().is_err()))
        };
        match self.start.arguments.iter().find(is_address) {
            None => Ok(()),
            Some(word) => Err(CliError::Usage(format!(
                "unknown option {} before the address {}; an address follows `elastick q` or options that it knows \
                 (elastick q --help)",
                String::from_utf8_lossy(self.start.arguments.first().unwrap_or(word)),
                String::from_utf8_lossy(word)
            ))),
        }
    }

    /// Checks that an address of a process comes with nothing that only a local session has a use for: no script here reads arguments, and
    /// no client connects.
    ///
    /// # Errors
    /// The first such argument or option.
    pub fn rejects_arguments(&self) -> Result<(), CliError> {
        if let Some(option) = self.local_only.first() {
            return Err(CliError::Usage(format!(
                "{option} has a meaning for a local session only; with an address use -q, -c and -P (elastick q --help)"
            )));
        }
        match self.start.arguments.first() {
            None => Ok(()),
            Some(word) if word.starts_with(b"-") => Err(unknown_option(word)),
            Some(word) => Err(CliError::Usage(format!(
                "unexpected argument {} after an address: expressions for that process come from standard input \
                 (elastick q --help)",
                String::from_utf8_lossy(word)
            ))),
        }
    }
}

fn unknown_option(word: &[u8]) -> CliError {
    CliError::Usage(format!(
        "unknown option {}; arguments for a script follow its FILE, --config precedes options of the language \
         (elastick q --help)",
        String::from_utf8_lossy(word)
    ))
}

fn number(option: &str, text: &str) -> Result<i64, CliError> {
    text.parse().map_err(|_| CliError::Usage(format!("{option} {text}: expected a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> QOptions {
        QOptions::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).expect("a command line")
    }

    fn words(words: &[Vec<u8>]) -> Vec<&str> {
        words.iter().map(|w| std::str::from_utf8(w).expect("text")).collect()
    }

    #[test]
    fn options_of_the_language_are_taken_and_the_rest_is_the_scripts() {
        let options = read("test.q -P 0 -abc 123 a -c 30 100 -q");
        assert_eq!(words(&options.start.arguments), ["-abc", "123", "a"]);
        assert_eq!(words(&options.start.command_line).join(" "), "q test.q -P 0 -abc 123 a -c 30 100 -q");
        assert_eq!(options.commands, ["P 0", "c 30 100"]);
        assert_eq!(options.target.as_deref(), Some("test.q"));
        assert!(options.start.quiet && options.sized);
        assert_eq!([read("-E 2 -p 5000").tls, read("-p 5000").tls], [Some(TlsMode::Only), None]);
    }

    #[test]
    fn options_stand_anywhere() {
        for line in ["-q :28010", ":28010 -q", "-q -c 40 200 :28010 -P 0", "-P 0 :28010"] {
            let options = read(line);
            assert_eq!(options.target.as_deref(), Some(":28010"), "{line}");
            assert!(options.rejects_arguments().is_ok() && options.start.arguments.is_empty(), "{line}");
        }
        let options = read("-q -p 5000 lib.q -x 1 y -c 40 200");
        assert_eq!((options.target.as_deref(), options.port.as_deref()), (Some("lib.q"), Some("5000")));
        assert_eq!(words(&options.start.arguments), ["-x", "1", "y"]);
    }

    #[test]
    fn an_address_that_would_not_be_connected_to_is_an_error() {
        for (line, expected) in [
            ("-p 28099 :28020", "-p has a meaning for a local session only"),
            (":28020 -s 4", "-s has a meaning for a local session only"),
        ] {
            let Err(CliError::Usage(error)) = read(line).rejects_arguments() else { panic!("{line} is taken") };
            assert!(error.starts_with(expected), "{error}");
        }
        let Err(CliError::Usage(error)) = read("-x y :28010").rejects_addresses() else { panic!("taken") };
        assert!(error.starts_with("unknown option -x before the address :28010"), "{error}");
        assert!(read("-x y 12:30 z").rejects_addresses().is_ok());
    }

    #[test]
    fn without_a_file_the_first_word_is_an_option() {
        let options = read("-s 4 -w 100 -x y");
        assert_eq!((options.target, options.threads, options.workspace_mb), (None, Some(4), Some(100)));
        assert_eq!(words(&options.start.arguments), ["-x", "y"]);
    }

    #[test]
    fn an_unknown_option_without_a_script_is_named() {
        for line in ["--nosuch", "-s 4 --nosuch", "-x y --nosuch=1 z"] {
            let Err(CliError::Usage(error)) = read(line).rejects_long_options() else { panic!("{line} is taken") };
            assert!(error.starts_with("unknown option --nosuch"), "{error}");
        }
        for line in ["-x y", "-s 4 - --"] {
            assert!(read(line).rejects_long_options().is_ok(), "{line}");
        }
    }

    #[test]
    fn nothing_but_options_of_the_language_follows_an_address() {
        for (line, expected) in [
            ("rdb1:5011 -x", "unknown option -x"),
            ("rdb1:5011 -q 2+2", "unexpected argument 2+2 after an address"),
            ("rdb1:5011 -", "unknown option -;"),
        ] {
            let Err(CliError::Usage(error)) = read(line).rejects_arguments() else { panic!("{line} is taken") };
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read("rdb1:5011 -q -c 40 200").rejects_arguments().is_ok());
    }

    #[test]
    fn unsupported_options_and_missing_values_are_rejected() {
        for line in ["-l", "-P", "-P x", "-c 1", "-E 3"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(matches!(QOptions::read(&words), Err(CliError::Usage(_))), "{line}");
        }
    }
}

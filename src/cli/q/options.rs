//! Command line of q: a file, options of the language, and the script's own arguments.

use crate::cli::CliError;
use crate::q::session::Start;

/// Parsed command line.
#[derive(Debug, Default)]
pub struct Started {
    /// Script, or address of another process.
    pub target: Option<String>,
    pub start: Start,
    pub threads: Option<usize>,
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
    /// `-u 0`: clients have the rights of the console.
    pub trusts_clients: bool,
}

impl Started {
    /// Parses the command line.
    ///
    /// # Errors
    /// An option without its value, with an invalid value, or that is not supported.
    pub fn read(words: &[String]) -> Result<Started, CliError> {
        let mut started = Started::default();
        started.start.command_line =
            std::iter::once(&"q".to_owned()).chain(words).map(|w| w.as_bytes().to_vec()).collect();
        let mut words = words.iter().peekable();
        if let Some(first) = words.next_if(|word| !word.starts_with('-')) {
            started.target = Some(first.clone());
            started.start.script = first.as_bytes().to_vec();
        }
        while let Some(word) = words.next() {
            let letter = match word.as_bytes() {
                [b'-', letter] => *letter,
                _ => b' ',
            };
            let mut value = || words.next().cloned().ok_or_else(|| CliError::Usage(format!("{word} needs a value")));
            match letter {
                b'b' => started.start.blocks_writes = true,
                b'q' => started.start.quiet = true,
                b'c' | b'C' => {
                    let (rows, columns) = (number(word, &value()?)?, number(word, &value()?)?);
                    started.sized |= letter == b'c';
                    started.commands.push(format!("{} {rows} {columns}", char::from(letter)));
                }
                b'e' | b'g' | b'o' | b'P' | b'S' | b't' | b'T' | b'W' | b'z' => {
                    let number = number(word, &value()?)?;
                    started.commands.push(format!("{} {number}", char::from(letter)));
                }
                b's' => started.threads = Some(usize::try_from(number(word, &value()?)?).unwrap_or(0)),
                b'w' => started.workspace_mb = u64::try_from(number(word, &value()?)?).ok(),
                b'p' => started.port = Some(value()?),
                b'u' => {
                    let users = value()?;
                    started.trusts_clients = users == "0";
                    started.users = Some(users).filter(|users| users != "0" && users != "1");
                }
                b'U' => started.users = Some(value()?),
                b'E' if value()? == "0" => {}
                b'E' | b'l' | b'L' | b'm' | b'r' => {
                    return Err(CliError::Usage(format!(
                        "{word} is not supported by this console; see elastick q --help"
                    )));
                }
                _ => started.start.arguments.push(word.as_bytes().to_vec()),
            }
        }
        Ok(started)
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

    /// Checks that no argument follows the address of a process, as no script here reads it.
    ///
    /// # Errors
    /// The first argument.
    pub fn rejects_arguments(&self) -> Result<(), CliError> {
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

    fn read(line: &str) -> Started {
        Started::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).expect("a command line")
    }

    fn words(words: &[Vec<u8>]) -> Vec<&str> {
        words.iter().map(|w| std::str::from_utf8(w).expect("text")).collect()
    }

    #[test]
    fn options_of_the_language_are_taken_and_the_rest_is_the_scripts() {
        let started = read("test.q -P 0 -abc 123 a -c 30 100 -q");
        assert_eq!(words(&started.start.arguments), ["-abc", "123", "a"]);
        assert_eq!(words(&started.start.command_line).join(" "), "q test.q -P 0 -abc 123 a -c 30 100 -q");
        assert_eq!(started.commands, ["P 0", "c 30 100"]);
        assert_eq!(started.target.as_deref(), Some("test.q"));
        assert!(started.start.quiet && started.sized);
    }

    #[test]
    fn without_a_file_the_first_word_is_an_option() {
        let started = read("-s 4 -w 100 -x y");
        assert_eq!((started.target, started.threads, started.workspace_mb), (None, Some(4), Some(100)));
        assert_eq!(words(&started.start.arguments), ["-x", "y"]);
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
        for line in ["-l", "-P", "-P x", "-c 1", "-E 1"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(matches!(Started::read(&words), Err(CliError::Usage(_))), "{line}");
        }
    }
}

//! Access rules of a server for remote callers.

use crate::runtime::error::QError;
use crate::runtime::host::Grants;
use crate::syntax::called::called;
use columns::table::{Sym, Value, symbol};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Access rules set by the owner of the process.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub grants: Grants,
    /// Remote callers may not assign globals.
    pub block_writes: bool,
    /// Files that the process reads at its start, as absolute paths: remote callers must not change them.
    pub guarded: Vec<PathBuf>,
    /// Functions that remote callers may call; `None` permits any expression.
    pub allowed: Option<HashSet<Sym>>,
}

impl Rules {
    /// Rules from the options `--remote-may`, `-u` (whether given), `-b` and from an allow-list.
    pub fn new(may: &[String], kept_inside: bool, block_writes: bool, allowed: Option<HashSet<Sym>>) -> Rules {
        let has = |name: &str| may.iter().any(|granted| granted == name);
        let grants = Grants {
            files: has("files"),
            inside: kept_inside,
            sockets: has("sockets"),
            relay: false,
            system: has("system") && !kept_inside,
        };
        Rules { grants, block_writes, guarded: Vec::new(), allowed }
    }

    /// Returns the message to evaluate. With an allow-list, it must be a call of a listed function.
    ///
    /// # Errors
    /// `access` for a message that is not permitted.
    pub fn admitted(&self, message: Value) -> Result<Value, QError> {
        let Some(allowed) = &self.allowed else { return Ok(message) };
        match called(&message) {
            Some((name, _)) if !allowed.contains(&name) => {
                Err(QError::with("access", format!("{} is not allowed", symbol::text(name).escape_ascii())))
            }
            Some((name, arguments)) => {
                let head = Value::Sym(name);
                Ok(if arguments.is_empty() { message } else { Value::list([vec![head], arguments].concat()) })
            }
            None => Err(QError::with("access", "only calls of allowed functions (--allow), by name")),
        }
    }
}

/// Reads an allow-list: one name per line; `/` starts a comment.
///
/// # Errors
/// If the file cannot be read or the symbol table is full.
pub fn allow_list(path: &Path) -> std::io::Result<HashSet<Sym>> {
    let text = std::fs::read(path)?;
    let names =
        text.split(|c| *c == b'\n').map(|line| line.split(|c| *c == b'/').next().unwrap_or_default().trim_ascii());
    let names = names.filter(|name| !name.is_empty());
    names.map(|name| symbol::intern(name).map_err(|error| std::io::Error::other(error.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_line;

    fn rules() -> Rules {
        let names = ["f", ".api.g"].map(|name| symbol::intern(name.as_bytes()).expect("room"));
        Rules { allowed: Some(HashSet::from(names)), ..Rules::default() }
    }

    fn admitted(text: &str) -> Result<String, String> {
        let message = rules().admitted(Value::chars(text.as_bytes()));
        message.map(|v| String::from_utf8_lossy(&one_line(&v)).into_owned()).map_err(|e| e.to_string())
    }

    #[test]
    fn allowed_functions_are_called_with_values() {
        assert_eq!(admitted("f[1;`a]").as_deref(), Ok("(`f;1;`a)"));
        assert_eq!(admitted(".api.g 5").as_deref(), Ok("(`.api.g;5)"));
        assert_eq!(admitted("ff").err().as_deref(), Some("'access: ff is not allowed"));
    }

    #[test]
    fn nothing_else_is() {
        for text in ["g 1", "1+1", "f[value \"g 1\"]", "f each 1 2", "h:f 1", "select from t"] {
            assert!(admitted(text).is_err_and(|error| error.starts_with("'access")), "{text}");
        }
    }

    #[test]
    fn system_is_never_granted_with_a_fence_around_files() {
        let may = ["files", "sockets", "system"].map(str::to_string);
        assert!(Rules::new(&may, false, false, None).grants.system);
        let fenced = Rules::new(&may, true, false, None).grants;
        assert!(fenced.files && fenced.inside && !fenced.system);
    }
}

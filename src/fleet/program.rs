//! Looks for the program of a group's instances before the group starts: one that does not exist would fail for ever.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Checks that a program can be executed: the file itself if the name has a `/`, else a file of that name in a directory of `search`, the value of `PATH`.
///
/// # Errors
/// `NotFound`, which names the program.
pub(super) fn check(program: &OsStr, search: Option<&OsStr>) -> io::Result<()> {
    // The system's search path for a process without PATH.
    let search = search.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let name = program.display();
    let (is_found, place) = match program.as_encoded_bytes().contains(&b'/') {
        true => (is_executable(Path::new(program)), "there".to_string()),
        false => (
            std::env::split_paths(search).any(|directory| is_executable(&directory.join(program))),
            format!("in PATH ({})", search.display()),
        ),
    };
    match is_found {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "the program of the instances, {name:?}, cannot be started: no executable file of this name is {place}"
            ),
        )),
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_path_or_in_the_search_path() {
        let search = Some(OsStr::new("/nowhere:/bin"));
        for program in ["sh", "/bin/sh"] {
            assert!(check(OsStr::new(program), search).is_ok(), "{program}");
        }
        assert!(check(OsStr::new("sh"), None).is_ok());
    }

    #[test]
    fn one_that_cannot_be_executed_is_named() {
        // Of no such name, a directory, and a file that is no program.
        for program in ["no-such-program", "/bin/no-such-program", "/bin/", "/etc/passwd", ""] {
            let error = check(OsStr::new(program), Some(OsStr::new("/nowhere:/bin"))).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().contains(&format!("{program:?}")), "{error}");
        }
    }
}

//! The user that runs this process: its name for itself, and for the processes that it connects to without naming another.

/// User name of the process.
pub fn name() -> String {
    use std::os::unix::ffi::OsStringExt;
    let named = std::env::var_os("USER").or_else(|| std::env::var_os("LOGNAME"));
    let number = rustix::process::getuid().as_raw();
    let listed = || user_of(&std::fs::read("/etc/passwd").unwrap_or_default(), number);
    let name = named.map(OsStringExt::into_vec).or_else(listed);
    name.map_or_else(|| number.to_string(), |name| String::from_utf8_lossy(&name).into_owned())
}

/// The name of a user number in the text of `/etc/passwd`.
fn user_of(users: &[u8], number: u32) -> Option<Vec<u8>> {
    users.split(|c| *c == b'\n').find_map(|line| {
        let mut fields = line.split(|c| *c == b':');
        let name = fields.next()?;
        (fields.nth(1)? == number.to_string().as_bytes()).then(|| name.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::user_of;

    #[test]
    fn users() {
        let users = b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_of(users, 1000), Some(b"ann".to_vec()));
        assert_eq!(user_of(users, 7), None);
        assert_eq!(user_of(b"", 0), None);
    }
}

//! `-u 1`: nothing leads a remote caller out of the working directory. One test, because it changes the directory of its process.

use elastick_q::session::{Session, Start};
use elastick_q::{Caller, Grants, Limits, eval_text};
use std::os::unix::fs::symlink;
use std::path::Path;

/// What a caller tries; `OUT` is the directory around its own. Each must fail with `access`.
const TRIED: &str = r#"
read0 `:OUT/secret
read0 `:../secret
read1 `:a/../../secret
read0 `:link
read0 `:linkdir/secret
read0 `:hard
read1 `:fifo
read1 `:/dev/zero
`:link set 1
`:linkdir/new set 1
`:linkdir/ set ([]a:1 2)
`:hard set 1
`:link 0: enlist "x"
`:link 1: 0x00
hdel `:link
hopen `:link
hopen `:linkdir/new
key `:linkdir
hcount `:link
get `:linked
get `:linked/
\l linkdir
\l listed
\r a/f linkdir/f
\r linkdir/secret f
-11!`:link
-19!(`:link;`:copy;17;2;6)
-19!(`:a/f;`:linkdir/copy;17;2;6)
-21!`:link
`:linkdir/sym?`a
(`:linkdir/z;17;2;6) set 1
save `:linkdir/x
load `:link
("II";",")0:`:link
.Q.dpft[`:linkdir;2024.01.01;`a;`x]
.Q.en[`:linkdir] ([]a:`b`c)
"#;

fn line(session: &mut Session, text: &str) -> Result<String, String> {
    let value = eval_text(session, text.as_bytes(), &Limits::default()).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&elastick_q::one_line(&value)).into_owned())
}

#[test]
fn no_link_leads_out_of_the_directory() {
    let out = std::env::temp_dir().join(format!("elastickInside{}", std::process::id()));
    let own = out.join("own");
    std::fs::create_dir_all(own.join("a")).expect("a directory");
    std::env::set_current_dir(&own).expect("it is there");
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
    write(&out.join("secret"), "secret\n");
    write(Path::new("a/f"), "own\n");
    symlink("../secret", "link").expect("a link");
    symlink("..", "linkdir").expect("a link");
    std::fs::hard_link(out.join("secret"), "hard").expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, "fifo", rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .expect("a pipe");

    let mut session = Session::console(Start::default(), None);
    line(&mut session, "x:([]a:`p`q)").expect("a table");
    // A splayed table whose column is a link, and a database with a segment elsewhere.
    line(&mut session, "`:linked/ set ([]c:1 2)").expect("written");
    std::fs::rename("linked/c", out.join("c")).expect("moved");
    symlink("../../c", "linked/c").expect("a link");
    std::fs::create_dir_all("listed").expect("a directory");
    write(Path::new("listed/par.txt"), &format!("{}\n", out.display()));

    let grants = Grants { files: true, inside: true, ..Grants::default() };
    session.set_caller(Caller { handle: 7, remote: true, grants, ..Caller::default() });
    let before = std::fs::read_dir(&out).expect("it is there").count();
    for text in TRIED.lines().filter(|text| !text.is_empty()) {
        let text = text.replace("OUT", out.to_str().expect("a path"));
        let result = line(&mut session, &text);
        assert!(result.as_ref().is_err_and(|error| error.starts_with("'access")), "{text}: {result:?}");
    }
    assert_eq!(std::fs::read_dir(&out).expect("it is there").count(), before);
    assert_eq!(std::fs::read(out.join("secret")).expect("it is there"), b"secret\n");
    // Within the directory everything is as before.
    for (text, result) in
        [("read0 `:a/f", ",\"own\""), ("`:a/g set 5", "`:a/g"), ("get `:./a/g", "5"), ("hdel `:a/g", "`:a/g")]
    {
        assert_eq!(line(&mut session, text).as_deref(), Ok(result), "{text}");
    }
    let _ = std::fs::remove_dir_all(&out);
}

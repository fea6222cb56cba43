//! `elastick q` as a server process, and its exit.

use crate::harness::{Directory, Process, elastick, signal, wait_for};
use crate::node_program::{pushed, puts_off_several, sym, until, with};
use crate::node_web::{Web, exchange_at, get};
use crate::rdb_process::{ask, refused};
use crate::remote_rights::{connect, session};
use elastick::net::client::{Client, ClientError};
use proto::{Limits, MessageKind, Value};
use std::io::{BufRead, BufReader, ErrorKind, PipeReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A listening session that has loaded this program.
pub fn serving(name: &str, program: &str) -> (Directory, Process, u16) {
    let directory = Directory::new(&format!("session-{name}"));
    let script = directory.path().join("s.q");
    std::fs::write(&script, format!("{program}-1\"port \",string system\"p\";\n")).expect("written");
    let (process, port) = session(&script, &[]);
    (directory, process, port)
}

#[test]
fn browsers_get_pages_from_a_session() {
    let program = ".z.ph:{.h.hy[`txt]x[0],\"|\",x[1;`Host],\"|\",string .z.u}\n.z.pp:{.h.hy[`txt]reverse x 0}\n\
                   .z.pm:{.h.hy[`txt]string x 0}\n";
    let (_files, _process, port) = serving("pages", program);
    // Base64 of ann:x.
    let page = exchange_at(port, &get("/a?b", "Authorization: Basic YW5uOng=\r\n"));
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("a?b|localhost|ann"), "{page}");
    let posted = exchange_at(port, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
    assert!(posted.ends_with("olleh x"), "{posted}");
    assert!(exchange_at(port, "DELETE /x HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("DELETE"));
}

#[test]
fn a_session_shows_values_to_browsers_until_a_handler_is_set() {
    let (_files, _process, port) = serving("own-pages", "t:([]a:1 2;b:`x`y)\n");
    let tables = exchange_at(port, &get("/", ""));
    assert!(tables.starts_with("HTTP/1.1 200 OK\r\n") && tables.contains("<pre>t\n"), "{tables}");
    assert!(exchange_at(port, &get("/t.json?t", "")).ends_with("{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}"));
    // Chrome's tool for q sends functions.
    assert!(exchange_at(port, &get("/?{exec%20sum%20a%20from%20t}[]", "")).contains("3"));
    let refused = exchange_at(port, &get("/?system%22id%22", ""));
    assert!(refused.starts_with("HTTP/1.1 400 ") && refused.ends_with("'access"), "{refused}");
}

#[test]
fn pages_of_a_session_are_the_handlers_alone() {
    let (_files, _process, port) =
        serving("no-pages", ".z.ph:{$[x[0]~\"bad\";'`oops;.h.hy[`txt]@[{first read0`:/etc/hostname};0;{x}]]}\n");
    assert!(exchange_at(port, &get("/bad", "")).starts_with("HTTP/1.1 500 "));
    assert!(exchange_at(port, &get("/", "")).ends_with("\r\n\r\naccess"));
    assert!(
        exchange_at(port, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1")
            .starts_with("HTTP/1.1 405 ")
    );
    assert_eq!(ask(&mut connect(port), "1+1"), Value::Long(2));
}

#[test]
fn logins_are_decided_by_address_and_handle() {
    let program = "by:()\n.z.pw:{[u;p]by::by,enlist(u;p;.z.a;.z.u;.z.w);1b}\n";
    let (_files, _process, port) = serving("by-address", program);
    let (_other_files, _other, other_port) =
        serving("by-name", &format!("me:.z.u\nh:hopen`::{port}:ann:x\ng:hopen {port}\n"));
    let mut client = connect(port);
    assert_eq!(ask(&mut client, "by[0]~(`ann;enlist\"x\";0x0 sv 0x7f000001;`;3i)"), Value::Bool(true));
    // Without a user it is the one that runs the process.
    let own = ask(&mut connect(other_port), "me");
    assert_eq!((ask(&mut client, "by[1;0]"), ask(&mut client, "by[1;4]")), (own, Value::Int(4)));
}

#[test]
fn a_login_has_the_handle_of_its_connection() {
    let program = "at:opened:()!()\n.z.pw:{[u;p]if[u=`no;:0b];at[u]:.z.w;1b}\n.z.po:{opened[.z.u]:x}\n";
    let (_files, _process, port) = serving("handles", program);
    let mut client = connect(port);
    let login = move |user: String| {
        let address = format!("127.0.0.1:{port}:{user}:x").parse().expect("an address");
        Client::connect(&address, Duration::from_secs(60), Limits::default())
    };
    // All log in at once.
    let logins: Vec<_> = (0..6)
        .map(|n| {
            std::thread::spawn(move || {
                let mut client = login(format!("user{n}")).expect("admitted");
                let answer = ask(&mut client, "(.z.w=at .z.u)&.z.w=opened .z.u");
                (client, answer)
            })
        })
        .collect();
    assert!(login("no".to_string()).is_err());
    // They stay open, so that none gets the handle of another one. That of the refused login may be another's by now.
    let logins: Vec<(Client, Value)> = logins.into_iter().map(|login| login.join().expect("an answer")).collect();
    assert!(logins.iter().all(|(_, answer)| *answer == Value::Bool(true)));
    assert_eq!(ask(&mut client, "count distinct value opened"), ask(&mut client, "count opened"));
}

#[test]
fn a_session_requests_pages() {
    let program =
        ".z.ph:{.h.hy[`txt]x[0],\"|\",string .z.u}\n.z.pp:{.h.hy[`txt]x[1;`$\"Content-Type\"],\"|\",reverse x 0}\n";
    let (_files, _process, port) = serving("pages-here", program);
    let program = format!(
        "a:`:http://localhost:{port}\nplain:.Q.hg a\nuser:.Q.hg\"http://ann:x@localhost:{port}/b?c=d\"\n\
         posted:.Q.hp[a;`$\"text/x\";\"abc\"]\n\
         raw:12#a\"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n\"\n"
    );
    let (_other_files, _other, other_port) = serving("pages-there", &program);
    let got = ask(&mut connect(other_port), "`$(plain;user;posted;raw)");
    assert_eq!(got, Value::symbols(["|", "b?c=d|ann", "text/x|cba", "HTTP/1.1 200"]));
}

#[test]
fn page_requests_to_a_session_are_authorised() {
    let program =
        ".z.ac:{$[\"t1\"~x[1;`Token];(1;\"bob\");(4;\"\")]}\n.z.pw:{[u;p]u=`ann}\n.z.ph:{.h.hy[`txt]string .z.u}\n";
    let (_files, _process, port) = serving("looked-at", program);
    assert!(exchange_at(port, &get("/", "")).starts_with("HTTP/1.1 401 "));
    assert!(exchange_at(port, &get("/", "Token: t1\r\n")).ends_with("bob"));
    assert!(exchange_at(port, &get("/", "Authorization: Basic YW5uOng=\r\n")).ends_with("ann"));
}

#[test]
fn a_web_client_talks_to_a_session() {
    let program = "here:gone:()\n.z.wo:{here::here,x}\n.z.wc:{gone::gone,x}\n.z.ws:{neg[.z.w]$[10h=type x;.j.j value x;reverse x]}\n";
    let (_files, _process, port) = serving("web", program);
    let mut client = connect(port);
    let mut web = Web::open_at(port);
    web.send(1, b"til 3");
    assert_eq!(web.next(), (1, b"[0,1,2]".to_vec()));
    web.send(2, &[1, 2]);
    assert_eq!(web.next(), (2, vec![2, 1]));
    assert_eq!(ask(&mut client, "count here"), Value::Long(1));
    // A sync call to a WebSocket client is an error; an async message is sent.
    assert_eq!(refused(&mut client, "(first here)\"1\""), "nyi");
    ask(&mut client, "neg[first here]\"told\"");
    assert_eq!(web.next(), (1, b"told".to_vec()));
    drop(web);
    crate::node_program::until(&mut client, "here~gone", &Value::Bool(true));
}

#[test]
fn a_session_waits_for_deferred_replies_and_notifies_its_clients() {
    let (_files, _process, port) = serving("deferring", "work:{neg[.z.w]2*x}\ntell:{neg[.z.w]`told;x}\n");
    let program = format!("h:hopen`::{port}\ndefer:{{neg[h](`work;x);h[]}}\n-1\"got \",string defer 21;\n");
    let (_other_files, mut other, other_port) =
        serving("deferred", &program.replace("-1\"got", "got:defer 21;-1\"got"));
    assert_eq!(ask(&mut connect(other_port), "got"), Value::Long(42));
    other.kill();
    let mut client = connect(port);
    assert_eq!(ask(&mut client, "tell 3"), Value::Long(3));
    assert_eq!(pushed(&mut client), sym("told"));
}

#[test]
fn a_session_keeps_bytes_that_are_no_message_and_closes_their_connection() {
    let (_files, _process, port) = serving("malformed", "bad:()\n.z.bm:{bad::x}\n.z.pc:{gone::x}\n");
    let (mut client, mut other) = (connect(port), connect(port));
    let handle = ask(&mut other, ".z.w");
    let wrong = [1, 1, 0, 0, 12, 0, 0, 0, 0xfe, 0xfe, 0xfe, 0xfe];
    other.send_raw(&wrong).expect("sent");
    assert!(matches!(other.query("1"), Err(ClientError::Server(name)) if name == b"badmsg"));
    assert!(matches!(other.query("1"), Err(ClientError::Closed | ClientError::Io(_))));
    until(&mut client, "gone", &handle);
    assert_eq!(ask(&mut client, "first bad"), handle);
    assert_eq!(ask(&mut client, "last bad"), Value::Vector { attr: 0, items: proto::Items::Byte(wrong.to_vec()) });
}

/// Standard output and error of a console connected to a port.
fn remote(port: u16, options: &[&str], lines: &str) -> (String, String) {
    let address = format!(":{port}");
    let output = piped(&[options, &[&address]].concat(), lines);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_remote_console_sets_how_it_shows_results() {
    let (_files, _process, port) = serving("display", "wide:flip(`$\"column\",/:string til 20)!20#enlist til 2\n");
    let (shown, notes) = remote(port, &[], "\\P 3\n1%3\n\\P\n\\c 25 60\nwide\n\\c 25 300\nwide\n");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.first(), Some(&"0.333"), "{shown}");
    assert_eq!(lines.get(1), Some(&"3i"), "{shown}");
    assert!(lines.get(2).is_some_and(|line| line.len() == 59 && line.ends_with("..")), "{shown}");
    assert!(lines.iter().any(|line| line.ends_with("column19")), "{shown}");
    // A program that reads the output does not see the note.
    assert_eq!(notes, "(7 of 20 columns shown; \\c 25 170 shows them all)\n");
    let (shown, notes) = remote(port, &["-q", "-c", "25", "170"], "wide\nselect from wide where 0b\n");
    assert!(shown.lines().next().is_some_and(|line| line.ends_with("column19")), "{shown}");
    assert_eq!(remote(port, &["-q"], "wide\n").1, "", "-q wants no remarks; {notes}");
    // The other process keeps its own settings.
    assert_eq!(ask(&mut connect(port), "system\"P\""), Value::Int(7));
    // A pipe has no width.
    let (shown, notes) = remote(port, &[], "wide\n");
    assert!(shown.lines().next().is_some_and(|line| line.ends_with("column19")) && notes.is_empty(), "{shown}{notes}");
}

#[test]
fn consoles_explain_names() {
    let (_files, _process, port) = serving("help", "x:1\n");
    for (shown, errors) in [remote(port, &[], "\\help xbar\n\\help .u.sub\n"), {
        let output = piped(&[], "\\help xbar\n\\help .u.sub\n");
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    }] {
        assert!(shown.starts_with("x xbar y  ") && shown.contains(".u.sub[table;symbols]  "), "{shown} {errors}");
    }
}

#[test]
fn an_address_with_options_of_a_session_is_an_error() {
    for arguments in [["-p", "0W", ":1"], ["-x", "y", ":1"], [":1", "-s", "2"]] {
        let output = piped(&arguments, "1+1\n");
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_console_at_a_node_sees_why_and_programs_see_the_name() {
    let (_files, scene) = with("why", "f:{x}\n", &[]);
    let (shown, errors) = remote(scene.port, &["-q"], "read0`:/etc/hostname\n2+2\n");
    assert!(
        errors.starts_with("'access (files are not available to clients; ") && errors.contains("--remote-may files"),
        "{errors}"
    );
    assert!(errors.ends_with(")\n  [0]  read0`:/etc/hostname\n       ^\n"), "{errors}");
    assert_eq!(shown, "4\n", "{errors}");
    assert_eq!(refused(&mut scene.connect(), "read0`:/etc/hostname"), "access");
    let (_others, _process, port) = serving("why", "x:1\n");
    let (_, errors) = remote(port, &["-q"], "read0`:/etc/hostname\n");
    assert!(errors.starts_with("'access (files ") && errors.contains("-u 0"), "{errors}");
    assert_eq!(refused(&mut connect(port), "read0`:/etc/hostname"), "access");
    // A handle of a session requests no reasons, as servers of other languages know kdb+'s logins alone.
    let question = "\"read0`:/etc/hostname\"";
    let lines = format!("h:hopen {port}\nh{question}\n@[h;{question};{{x}}]\nhclose h\n");
    let seen = self::shown(&[], &lines);
    assert!(seen.starts_with("'access\n") && seen.ends_with("\n\"access\"\n"), "{seen}");
}

#[test]
fn one_question_needs_no_handle() {
    let (_files, _process, port) = serving("one-shot", "f:{x+y}\n");
    let lines = format!(
        "`::{port} \"1+1\"\n`::[(\":localhost:{port}\";60000);\"2+2\"]\n(`$\":localhost:{port}\")(`f;3;4)\n\
         @[`::{port};\"1+`a\";{{x}}]\n.[`::{port};enlist\"3+3\";{{x}}]\n.z.H\n`::{port} \"1+`a\"\n"
    );
    let output = piped(&[], &lines);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("2\n4\n7\n\"type\"\n6\n`int$()\n"), "{output:?}");
    assert!(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).contains("'type"));
}

#[test]
fn a_clients_console_and_namespace_end_with_its_connection() {
    let (_files, _process, port) = serving("own-console", "f:{`kept set x}\n");
    let mut client = connect(port);
    let narrow = ask(&mut client, "{system\"c 10 20\";.Q.s til 100}[]");
    assert_eq!(narrow, Value::chars("0 1 2 3 4 5 6 7 8..\n"));
    ask(&mut client, "system\"P 3\"");
    // Both last as long as the connection, and concern no other.
    assert_eq!(ask(&mut client, ".Q.s til 100"), narrow);
    assert_eq!(ask(&mut client, ".Q.s1 1%3"), Value::chars("0.333"));
    let mut other = connect(port);
    assert_eq!(ask(&mut other, "(system\"c\";.Q.s1 1%3)~(25 80i;\"0.3333333\")"), Value::Bool(true));
    drop(client);
    let mut client = connect(port);
    assert_eq!(ask(&mut client, "system\"c\""), ask(&mut other, "25 80i"));
    ask(&mut client, "{system\"d .own\";`g set value\"{x+h}\"}[]");
    assert_eq!(ask(&mut client, "(string system\"d\";.Q.s1 g)~(\".own\";\"{x+h}\")"), Value::Bool(true));
    assert_eq!(ask(&mut other, "(string system\"d\";.Q.s1 .own.g)~(enlist\".\";\"{x+h}\")"), Value::Bool(true));
    ask(&mut client, "system\"d .\"");
    // qStudio drops the last four levels of a backtrace: the function that evaluates, `.Q.trp`, the lambda around it, and the text that it sent.
    // A message `("{…}";argument)` has three: its text is evaluated before the lambda is applied.
    let levels = "{.Q.trp[{((1b;`);value x)};x;{count y}]}";
    assert_eq!(ask(&mut client, &format!("{levels}\"1+`a\"")), Value::Long(5));
    let applied = Value::List { attr: 0, items: vec![Value::chars(levels), Value::chars("1+`a")] };
    assert_eq!(client.request(&applied).expect("an answer"), Value::Long(4));
    // k over IPC: a report of qStudio's kind, and a lambda that is stored.
    assert_eq!(ask(&mut client, "k)(#!3;.:'[`.z.K`.z.k])~(3;(.z.K;.z.k))"), Value::Bool(true));
    assert_eq!(refused(&mut client, "k)0:`:/etc/hostname"), "access");
    assert_eq!(refused(&mut client, "k).\"\\\\l x.q\""), "access");
}

/// A session whose stdin is a pipe. One that refuses its arguments may end before it reads: what it
/// leaves unread is not an error.
fn piped(arguments: &[&str], input: &str) -> Output {
    let mut command = elastick(&[&["q"], arguments].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let written = child.stdin.take().expect("piped").write_all(input.as_bytes());
    assert!(written.as_ref().map_or_else(|e| e.kind() == ErrorKind::BrokenPipe, |()| true), "its input: {written:?}");
    child.wait_with_output().expect("it ends")
}

/// What a terminal would show of a session whose stdin is a pipe: output and errors, in order.
pub fn shown(arguments: &[&str], input: &str) -> String {
    let (mut child, mut output) = with_one_output(elastick(&[&["q"], arguments].concat()));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("taken");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("text");
    child.wait().expect("it ends");
    text
}

/// Starts a process whose errors and output go to one pipe.
pub fn with_one_output(mut command: Command) -> (Child, PipeReader) {
    let (output, end) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::piped()).stderr(end.try_clone().expect("a copy")).stdout(end);
    (command.spawn().expect("it runs"), output)
}

#[test]
fn a_link_named_q_is_the_console() {
    let directory = Directory::new("session-link");
    let link = directory.path().join("q");
    std::os::unix::fs::symlink(elastick(&[]).get_program(), &link).expect("a link");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "show .z.x\nexit 3\n").expect("written");
    let output = Command::new(&link)
        .arg(&script)
        .args(["-name", "rdb1", "-g", "1"])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "\"-name\"\n\"rdb1\"\n", "{output:?}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_session_that_outlives_its_input_says_so() {
    let (_files, mut other, port) = serving("outlived", "");
    let mut command = elastick(&["q", "-p", "0W"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = format!("h:hopen {port}\n\\p 0\n");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("taken");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut said).expect("text");
    assert!(said.starts_with("(end of input; the session continues for handle ") && said.contains("exit 0"), "{said}");
    // Without a connection it ends.
    other.kill();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(piped(&[], "1+1\n").stderr, b"");
}

/// A server of games keeps a function for each player.
#[test]
fn handlers_keep_functions_by_handle() {
    let program = "d:()!()\n.z.po:{d[x]:{x+1}}\n.z.pc:{d::d _ x}\n";
    let (_files, _process, port) = serving("kept", program);
    let (mut client, other) = (connect(port), connect(port));
    assert_eq!(ask(&mut client, "value d@\\:1"), Value::longs([2, 2]));
    assert!(refused(&mut client, "d[7]:{x}").starts_with("access"));
    drop(other);
    wait_for("the handler of the close", || (ask(&mut client, "count d") == Value::Long(1)).then_some(()));
}

/// kdb+ gives each connection a thread of its own at a negative port.
#[test]
fn a_negative_port_is_listened_on() {
    let directory = Directory::new("session-negative");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "\\p -0W\n-1\"port \",string neg system\"p\";\n").expect("written");
    let (_process, port) = session(&script, &[]);
    assert_eq!(ask(&mut connect(port), "system\"p\""), Value::Int(-i32::from(port)));
}

#[test]
fn a_missing_script_is_reported_and_the_session_continues() {
    let output = piped(&["nosuch.q"], "1+1\n");
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("'nosuch.q. OS reports: No such file or directory"), "{said}");
    assert!(said.lines().any(|line| line == "2"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn the_exit_code_is_the_scripts() {
    let directory = Directory::new("session-codes");
    for (text, input, code) in [("a:1\n", "a\n", 0), ("1+`a\n", "", 1), ("1+`a\n", "exit 3\n", 3), ("exit 4\n", "", 4)]
    {
        let script = directory.path().join("s.q");
        std::fs::write(&script, text).expect("written");
        let output = piped(&[script.to_str().expect("a path")], input);
        assert_eq!(output.status.code(), Some(code), "{text} {input}: {output:?}");
    }
}

/// `elastick q job.q >data.csv`: results are written to standard output, errors to standard error.
#[test]
fn errors_are_no_output() {
    let directory = Directory::new("session-errors");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "-1\"data\";\n1+`a\n").expect("written");
    let output = piped(&["-q", script.to_str().expect("a path")], "2+2\n1+`b\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "data\n4\n");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("s.q:2: 1+`a") && errors.contains("  [0]  1+`b\n"), "{errors}");
}

#[test]
fn a_session_started_to_ignore_sighup_does() {
    let directory = Directory::new("session-nohup");
    let ready = directory.path().join("ready");
    let text = format!("trap '' HUP; exec \"$0\" q -q -p 0W <<< '(`$\":{}\") 0: enlist string .z.i'", ready.display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &text]).arg(elastick(&[]).get_program());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = shell.spawn().expect("bash");
    let process: u32 = wait_for("the session", || std::fs::read_to_string(&ready).ok()?.trim_ascii().parse().ok());
    signal(process, "HUP");
    // It is still there to be ended.
    signal(process, "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
}

#[test]
fn a_profile_is_loaded_before_the_script() {
    let directory = Directory::new("session-profile");
    std::fs::write(directory.path().join("q.q"), "a:1\n").expect("written");
    std::fs::write(directory.path().join("own.q"), "a:2\n").expect("written");
    std::fs::write(directory.path().join("s.q"), "b:10*a\n").expect("written");
    let run = |set: &[(&str, &str)]| {
        let mut command = elastick(&["q", "s.q", "-q"]);
        command.current_dir(directory.path()).envs(set.iter().copied());
        let (mut child, mut output) = with_one_output(command);
        child.stdin.take().expect("piped").write_all(b"b\n").expect("taken");
        let mut text = String::new();
        output.read_to_string(&mut text).expect("text");
        child.wait().expect("it ends");
        text
    };
    assert_eq!(run(&[("QHOME", ".")]), "10\n");
    assert_eq!(run(&[("QHOME", "."), ("QINIT", "own.q")]), "20\n");
}

#[test]
fn a_script_may_come_from_a_pipe() {
    let mut command = Command::new("bash");
    let text = "\"$0\" q -q <(echo 'while[0;1];-1\"loaded\";exit 0')";
    command.args(["-c", text]).arg(elastick(&[]).get_program());
    let output = command.stdin(Stdio::null()).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "loaded\n", "{output:?}");
}

/// KX's tick.q reads the timer's period while it loads, to decide whether it publishes in batches.
#[test]
fn a_script_knows_the_timers_period_and_may_change_it() {
    let directory = Directory::new("session-period");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "show system\"t\"\n\\t 70\n").expect("written");
    let output = piped(&[script.to_str().expect("a path"), "-t", "50"], "\\t\nexit 0\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "50i\n70i\n", "{output:?}");
}

#[test]
fn a_client_of_a_session_may_have_several_answers_put_off() {
    let (_files, _process, port) = serving("several", "held:0#0i\ngive:{-30!x}\n");
    puts_off_several(&mut connect(port), &mut connect(port), true);
}

#[test]
fn lines_of_a_console_go_through_its_handler() {
    let output = piped(&[], ".z.pi:{0N!value x;}\n([]a:1 2)\n\\\\x .z.pi\n1+1\n".replace("\\\\", "\\").as_str());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "+(,`a)!,1 2\n2\n", "{output:?}");
}

/// A gateway that defers the replies to its clients, queries two workers, and replies when both have replied or one has failed.
const GATEWAY: &str = "id:0\nwho:()!()\ngot:()!()\nerrs:\"\"\nclosed:0\n.z.pc:{closed+:1}\n\
    .z.pg:{$[\"work \"~5#x;later value 5_x;value x]}\n\
    later:{id+:1;who[id]:.z.w;got[id]:();-30!(::);{[i;x;h]neg[h](`work;i;x)}[id;x]each h;`nobody}\n\
    back:{[i;failed;x]if[failed;:done[i;1b;x]];got[i],:x;if[2=count got i;done[i;0b;sum got i]]}\n\
    done:{[i;failed;x]errs::@[{-30!x;\"\"};(who i;failed;x);{x}]}\n";

#[test]
fn a_gateway_in_q_puts_answers_off_and_gives_them_once_its_workers_have() {
    let work = "held:()\nhold:0b\nwork:{[i;x]held,:enlist(.z.w;i;x);if[not hold;go[]]}\n\
        go:{w:held;held::();{[h;i;x]neg[h]$[x~`bad;(`back;i;1b;\"broken\");(`back;i;0b;x*x)]}.'w;count w}\n";
    let (_one_files, _one, one) = serving("worker-1", work);
    let (_two_files, _two, two) = serving("worker-2", work);
    let (_files, _process, port) = serving("gateway", &format!("{GATEWAY}h:hopen each`::{one}`::{two}\n"));
    let (mut client, mut other) = (connect(port), connect(port));
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2), "what is not put off is answered at once");
    assert_eq!(ask(&mut client, "work 3"), Value::Long(18));
    assert_eq!(refused(&mut client, "work `bad"), "broken");
    // The second worker fails too, when no reply is due any more.
    let unexpected = "errs like\"Handle * was not expecting a response msg\"";
    crate::node_program::until(&mut other, unexpected, &Value::Bool(true));
    assert_eq!(ask(&mut client, "work 4"), Value::Long(32), "the connection is in step");
    // A client disconnects before its reply.
    for worker in [one, two] {
        ask(&mut connect(worker), "hold:1b");
    }
    let mut gone = connect(port);
    let question = proto::encode::message(proto::MessageKind::Sync, &Value::chars("work 5")).expect("a message");
    gone.send_raw(&question).expect("sent");
    gone.flush().expect("sent");
    crate::node_program::until(&mut other, "count who", &Value::Long(4));
    drop(gone);
    crate::node_program::until(&mut other, "closed", &Value::Long(1));
    ask(&mut other, "errs:\"\"");
    for worker in [one, two] {
        let mut worker = connect(worker);
        crate::node_program::until(&mut worker, "count held", &Value::Long(1));
        ask(&mut worker, "hold:0b");
        assert_eq!(ask(&mut worker, "go[]"), Value::Long(1));
    }
    crate::node_program::until(&mut other, unexpected, &Value::Bool(true));
    // No reply can be sent to a client that waits for none, or from a message without a deferred reply.
    for text in ["-30!(77i;0b;1)", "-30!(.z.w;0b;1)"] {
        assert!(refused(&mut other, text).contains("was not expecting a response msg"), "{text}");
    }
    // Deferred and replied to within one message; an error after deferral.
    assert_eq!(ask(&mut other, "{-30!(::);-30!(.z.w;0b;x);`nobody}7"), Value::Long(7));
    assert_eq!(refused(&mut other, "{-30!(::);'`late}7"), "late");
    assert_eq!(ask(&mut other, "1+1"), Value::Long(2));
}

#[test]
fn two_sessions_ask_each_other() {
    let (_files, _process, port) = serving("asked", "f:{neg[.z.w](`note;1);x+.z.w\"10+\",string x}\n");
    let lines =
        format!("h:hopen {port}\nnote:{{-1\"noted\";}}\nh(`f;5)\nh(`f;6)\nh\"1+1\"\n(-38!enlist h)`f\nhclose h\n");
    let output = piped(&[], &lines);
    let shown = String::from_utf8_lossy(&output.stdout).replace("noted\n", "");
    assert_eq!(shown, "20\n22\n2\n,\"t\"\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_login_keeps_no_session_waiting_for_a_client_that_has_left() {
    let (_files, _process, port) = serving("left", ".z.pw:{[u;p]1b}\nf:{.z.w\"asked\"}\n");
    let mut client = connect(port);
    client.send_async(&Value::chars("f[]")).expect("sent");
    client.flush().expect("sent");
    let message = client.next_message(None).expect("the connection lives").expect("a message");
    assert_eq!(message.header.kind, MessageKind::Sync);
    // The session waits for the answer, and its `.z.pw` must decide on the login.
    let mut login = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    login.write_all(b"ann:x\x03\0").expect("sent");
    drop(client);
    login.read_exact(&mut [0]).expect("admitted");
}

#[test]
fn a_backslash_alone_switches_between_q_and_k() {
    let lines = "\\\n!3\n#1 2 3\n\\\ntil 2\n";
    let output = piped(&["-e", "1"], lines);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 1 2\n3\n0 1\n");
    // Where nothing is suspended, it is that of a debugger.
    let shown = shown(&[], "f:{x+`a}\nf 1\n\\\ntil 2\n");
    assert!(shown.starts_with("'type") && shown.ends_with("\n0 1\n"), "{shown}");
}

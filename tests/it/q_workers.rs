//! `elastick q` over other processes: `peach` with the handles of `.z.pd`; and its default pages at the limits.

use crate::harness::{Process, elastick, wait_for};
use crate::node_web::{exchange_at, get};
use crate::q_session::serving;
use crate::rdb_process::{ask, refused};
use crate::remote_rights::{connect, session};
use proto::Value;

#[test]
fn peach_sends_its_items_to_processes() {
    let worker = "n:0;name:`NAME;work:{n::n+1;x*x};slow:{{x+1}/[1000000;0];x}\n";
    let workers: Vec<_> = ["one", "two"].map(|name| serving(name, &worker.replace("NAME", name))).into();
    let ports: Vec<String> = workers.iter().map(|(_, _, port)| port.to_string()).collect();
    let program = format!(
        "ports:{}\nhandles:`u#hopen each ports\n.z.pd:handles\nwork:{{'here}}\nown:{{`a set x}}\n",
        ports.join(" ")
    );
    let directory = crate::harness::Directory::new("peach");
    let script = directory.path().join("s.q");
    std::fs::write(&script, format!("{program}-1\"port \",string system\"p\";\n")).expect("written");
    let (_process, port) = session(&script, &["-s", "-2", "-u", "0"]);
    let mut client = connect(port);
    assert_eq!(ask(&mut client, "system\"s\""), Value::Int(-2));
    // `work` is sent by value: here it fails, and there the worker's is called by name.
    assert_eq!(refused(&mut client, "work peach 1 2 3"), "here");
    assert_eq!(ask(&mut client, "({work x}peach til 9)~{x*x}each til 9"), Value::Bool(true));
    assert_eq!(ask(&mut client, "{work x}':[1 2 3]"), Value::longs([1, 4, 9]));
    assert_eq!(ask(&mut client, "sum handles@\\:\"n\""), Value::Long(12));
    assert_eq!(ask(&mut client, "asc distinct{name}peach til 20"), ask(&mut client, "`s#`one`two"));
    // One item stays here.
    assert_eq!(ask(&mut client, "{x+1}peach enlist 1"), Value::longs([2]));
    assert_eq!(ask(&mut client, "(neg til 10)~.Q.fc[neg;til 10]"), Value::Bool(true));
    // An error ends it, and what the other process still works on is not the next one's.
    assert_eq!(refused(&mut client, "{$[x=0;'bad;slow x]}peach til 4"), "bad");
    assert_eq!(ask(&mut client, "{x+100}peach 1 2 3 4"), Value::longs([101, 102, 103, 104]));
    // `.z.pd` as a function, then a list without `u#`, which is rejected.
    ask(&mut client, ".z.pd:{handles}");
    assert_eq!(ask(&mut client, "{x}peach 5 6"), Value::longs([5, 6]));
    ask(&mut client, ".z.pd:7 8i");
    assert_eq!(refused(&mut client, "{x}peach 5 6"), "type");
    // Threads again: none here.
    ask(&mut client, "system\"s 0\"");
    assert_eq!(ask(&mut client, "{x}peach 5 6"), Value::longs([5, 6]));
}

#[test]
fn a_worker_that_sends_anything_else_is_closed() {
    let (_files, _process, port) = serving("chatty", "talk:{neg[.z.w]\"0\";x}\n");
    let directory = crate::harness::Directory::new("chatty-peach");
    let script = directory.path().join("s.q");
    let program = format!(
        "handles:`u#enlist hopen {port}\n.z.pd:{{handles}}\n.z.pc:{{handles::`u#handles except x}}\n\
         -1\"port \",string system\"p\";\n"
    );
    std::fs::write(&script, program).expect("written");
    let (_own, port) = session(&script, &["-s", "-1", "-u", "0"]);
    let mut client = connect(port);
    assert_eq!(refused(&mut client, "{talk x}peach 1 2"), "close");
    // As for a worker that is gone, its handle is forgotten by the owner's handler.
    wait_for("the close handler", || (ask(&mut client, "count handles") == Value::Long(0)).then_some(()));
    assert_eq!(ask(&mut client, "{x+1}peach 1 2"), Value::longs([2, 3]), "without workers it is each");
    assert_eq!(ask(&mut client, "reval parse\"{x+1}peach 1 2\""), Value::longs([2, 3]));
}

#[test]
fn pages_of_values_have_heads_and_name_limits() {
    let directory = crate::harness::Directory::new("page-limits");
    let script = directory.path().join("s.q");
    std::fs::write(&script, "-1\"port \",string system\"p\";\n").expect("written");
    let path = script.to_str().expect("a path");
    let mut process = Process::start(&mut elastick(&["q", path, "-p", "0W", "-w", "50", "-T", "1"]));
    let port = process.number_after("port");
    let head = get("/?1%2B1", "").replacen("GET", "HEAD", 1);
    let (whole, head) = (exchange_at(port, &get("/?1%2B1", "")), exchange_at(port, &head));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(whole.starts_with(&head) && whole.len() > head.len(), "{whole}");
    for (target, name) in [("/?til%20100000000", "wsfull"), ("/?{while[1b;x]}[0]", "stop")] {
        let page = exchange_at(port, &get(target, ""));
        assert!(page.starts_with("HTTP/1.1 500 ") && page.ends_with(&format!("\r\n\r\n'{name}\n")), "{page}");
    }
}

#[test]
fn pages_are_made_of_a_text() {
    let directory = crate::harness::Directory::new("page-text");
    let text = "My page\n-------\n.Intro\nSome <text>.\n\tcode\n as it is\nname\t what\n.More\nEnd.\n";
    std::fs::create_dir(directory.path().join("src")).expect("made");
    std::fs::write(directory.path().join("src/doc.txt"), text).expect("written");
    std::fs::write(directory.path().join("s.q"), ".h.ht`doc\nexit 0\n").expect("written");
    let status = elastick(&["q", "s.q"]).current_dir(directory.path()).status().expect("it runs");
    assert!(status.success());
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("a page");
    assert!(read("doc.htm").contains("<title>My page</title>") && read("doc.htm").contains("src=\"a/_doc.htm\""));
    let body = "<h2>My page</h2><hr><h3><a name=\"Intro\">Intro</a></h3><p>Some &lt;text>.</p>";
    let page = read("a/doc.htm");
    assert!(page.contains(body), "{page}");
    for part in ["<code>code</code>", "<xmp>as it is\n</xmp>", "<tr><td>name</td><td>what</td></tr>", "<p>End.</p>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(read("a/_doc.htm").matches("target=v").count(), 2);
}

//! A node's `.u.end` from a start-up file: the owner's end-of-day write-down.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::tick_support::{PATIENCE, Tick, call, trades};
use elastick::net::Client;
use proto::{Limits, Value};
use std::path::Path;
use std::process::Stdio;

fn connect(port: u16) -> Client {
    let address = format!("127.0.0.1:{port}:test:").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("connected")
}

fn answer(client: &mut Client, question: &str) -> Value {
    client.query(question).unwrap_or_else(|error| panic!("{question}: {error}"))
}

fn until(client: &mut Client, question: &str) {
    wait_for(question, || (answer(client, question) == Value::Bool(true)).then_some(()));
}

/// A node with a start-up file, and its port.
fn node(tick: &Tick, name: &str, file: &Path, options: &[&str], parts: &Path) -> (Process, u16) {
    let mut command = elastick(&["rdb", &format!("127.0.0.1:{}", tick.port)]);
    command.arg(file).args(["-p", "127.0.0.1:0", "--node", name, "--unix-sockets=", "--query-threads", "1"]);
    let mut process = Process::start(command.args(options).env("PARTS", parts));
    let port = process.number_after("listening on");
    (process, port)
}

/// Publishes seven trades, and returns the feed's connection and one to the node, once it holds them.
fn with_seven_trades(tick: &Tick, port: u16) -> (Client, Client) {
    let (mut feed, mut client) = (tick.client(), connect(port));
    until(&mut client, ".rdb.stats`live");
    feed.request(&trades(0..7)).expect("published");
    until(&mut client, "7=count trade");
    (feed, client)
}

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/write-down").join(name)
}

/// Output of a script run by `elastick q`, which must exit with 0.
fn console(arguments: &[&str]) -> String {
    let output = elastick(&["q"]).args(arguments).stdin(Stdio::null()).output().expect("it runs");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out}{error}");
    out.into_owned()
}

#[test]
fn two_nodes_save_their_windows_and_the_parts_become_one_partition() {
    let files = Directory::new("day-end-files");
    let (parts, hdb) = (files.path().join("parts"), files.path().join("hdb"));
    let tick = Tick::start("day-end-tick", &[]);
    let small = ["--memory", "6MiB", "--scale", "40", "--roll", "70"];
    let (_first, first) = node(&tick, "n1", &example("save.q"), &small, &parts);
    let mut feed = tick.client();
    let mut first = connect(first);
    until(&mut first, ".rdb.stats`live");
    let (_second, second) = node(&tick, "n2", &example("save.q"), &["--memory", "256MiB"], &parts);
    let mut second = connect(second);
    until(&mut feed, "2=count .u.asg.tab");
    // Publish until the first node rolls; its memory use includes more than rows.
    let mut fed = 0;
    while answer(&mut first, ".rdb.stats`state") == Value::symbol("live") {
        feed.request(&trades(fed..fed + 1000)).expect("published");
        fed += 1000;
        assert!(fed < 10_000_000, "the first node never rolls");
    }
    until(&mut second, ".rdb.stats`live");
    feed.request(&trades(fed..fed + 3000)).expect("published");
    fed += 3000;
    let notes = [Value::symbols(["A", "Z"]), Value::list([Value::chars("one"), Value::chars("two")])];
    feed.request(&call(".u.upd", [Value::symbol("note"), Value::list(notes)])).expect("published");
    let (date, tip) = (answer(&mut feed, "string .u.d"), answer(&mut feed, ".u.j"));
    until(&mut second, "2=count note");
    answer(&mut feed, ".u.endofday[]");
    let text = |value: &Value| String::from_utf8_lossy(value.as_text().expect("text")).into_owned();
    let date = text(&date);
    for name in ["n1", "n2"] {
        let windows = parts.join(&date).join(name).join("windows");
        wait_for(&format!("{name} to save"), || windows.exists().then_some(()));
    }
    until(&mut second, "`done=.rdb.stats`dayEnd");
    // The live node ingests the new day.
    feed.request(&trades(0..5)).expect("published");
    until(&mut second, "5=count trade");

    let (parts, hdb) = (parts.to_str().expect("a path"), hdb.to_str().expect("a path"));
    let join = example("join.q");
    let join = join.to_str().expect("a path");
    let tip = tip.as_long().expect("an index");
    let refused = |tip: Option<&str>, words: &str| {
        let wrong = elastick(&["q", join, parts, hdb, &date]).args(tip).stdin(Stdio::null()).output();
        let wrong = wrong.expect("it runs");
        assert_eq!(wrong.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains(words), "{wrong:?}");
    };
    refused(Some(&(tip + 1).to_string()), "do not make up the day");
    // Only the number of updates reveals that the last node's part is missing.
    refused(None, "usage");
    refused(Some("all"), "no number of updates");
    console(&[join, parts, hdb, &date, &tip.to_string()]);

    let script = files.path().join("count.q");
    let question = format!(
        "\\l {hdb}\n-1\" \"sv string raze value exec count i,sum id,min id,max id from select from trade where date={date};\n\
         -1 string exec count i from select from trade where date={date},sym=`B;\n\
         n:select sym,text from note where date={date}\n-1 raze(string n`sym),n`text;\n\
         -1 string attr exec sym from select from trade where date={date};\n\
         -1 string count select id from idle where date={date};\nexit 0\n"
    );
    std::fs::write(&script, question).expect("written");
    let seen = console(&[script.to_str().expect("a path")]);
    let lines: Vec<&str> = seen.lines().collect();
    let sum = fed * (fed - 1) / 2;
    assert_eq!(lines[0], format!("{fed} {sum} 0 {}", fed - 1), "{seen}");
    assert_eq!(lines[1], ((fed + 1) / 3).to_string(), "{seen}");
    assert_eq!((lines[2], lines[3]), ("AZonetwo", "p"), "{seen}");
    assert_eq!(lines[4], "0", "a table without rows is in the partition: {seen}");
}

#[test]
fn the_function_sees_the_ended_day_with_the_owners_rights_while_the_new_day_goes_on() {
    let files = Directory::new("day-end-sees");
    let (file, gate) = (files.path().join("end.q"), files.path().join("gate"));
    let program = format!(
        "gate:`$\":{0}\"\nout:`$\":{0}.out\"\n\
         .u.end:{{[d]while[()~key gate;];seen::(d;count trade;exec sum rows from .rdb.windows;any .rdb.windows`open);\
         out set trade}}\n",
        gate.display()
    );
    std::fs::write(&file, program).expect("written");
    let tick = Tick::start("day-end-sees-tick", &[]);
    let (_node, port) = node(&tick, "n1", &file, &["--memory", "256MiB"], files.path());
    let (mut feed, mut client) = with_seven_trades(&tick, port);
    let date = answer(&mut feed, ".u.d");
    answer(&mut feed, ".u.endofday[]");
    feed.request(&trades(0..2)).expect("published");
    until(&mut client, "2=count trade");
    // `.u.end` is still running: feed, queries and assignments do not wait for it.
    assert_eq!(answer(&mut client, ".rdb.stats`dayEnd"), Value::symbol("running"));
    assert_eq!(answer(&mut client, "0<.rdb.stats`ended"), Value::Bool(true));
    let running = || page(port, "/health");
    let health = wait_for("health to say what runs", || Some(running()).filter(|text| text.contains(".u.end[")));
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("ok: live; .u.end["), "{health}");
    assert!(health.contains("] has been running for ") && health.contains("--limit-day-end-time: 600 s"), "{health}");
    assert_eq!(answer(&mut client, "mine:5;mine+1"), Value::Long(6));
    assert!(client.query(".u.end:{x}").is_err(), "it is the owner's");
    std::fs::write(&gate, "").expect("written");
    until(&mut client, "`done=.rdb.stats`dayEnd");
    let seen = Value::list([date, Value::Long(7), Value::Long(7), Value::Bool(false)]);
    assert_eq!(answer(&mut client, "seen"), seen);
    assert_eq!(answer(&mut client, "mine"), Value::Long(5));
    until(&mut client, "0=.rdb.stats`ended");
    assert!(page(port, "/health").ends_with("ok: live\n"));
    assert!(files.path().join("gate.out").exists());
}

#[test]
fn the_write_down_of_r_q_saves_empties_and_goes_on() {
    let files = Directory::new("day-end-hdpf");
    let file = files.path().join("end.q");
    // The address of the database is a closed port: r.q goes on without it.
    let program = "seen:()\n\
        .u.end:{t:tables`.;t@:where `g=attr each t@\\:`sym;seen::seen,count trade;.Q.hdpf[`::1;`:hdb;x;`sym];@[;`sym;`g#]each t;\
        seen::seen,count each(trade;select from trade;get` sv`:hdb,(`$string x),`trade`)}\n";
    let hdb = format!("(hsym`$\"{}\")", files.path().join("hdb").display());
    std::fs::write(&file, program.replace("`:hdb", &hdb)).expect("written");
    let tick = Tick::start("day-end-hdpf-tick", &[]);
    let (_node, port) = node(&tick, "n1", &file, &["--memory", "256MiB"], files.path());
    let (mut feed, mut client) = with_seven_trades(&tick, port);
    answer(&mut feed, ".u.endofday[]");
    until(&mut client, ".rdb.stats[`dayEnd]in`done`failed");
    assert_eq!(
        answer(&mut client, "(.rdb.stats`dayEnd;seen)"),
        Value::list([Value::symbol("done"), Value::longs(vec![7, 0, 0, 7])])
    );
}

#[test]
fn a_function_that_fails_or_times_out_is_reported_and_the_day_still_ends() {
    for (name, body, reason) in
        [("fails", "'`disk", "disk"), ("hangs", "while[1b;]", "stop"), ("waits", "system\"sleep 1000\"", "stop")]
    {
        let files = Directory::new(&format!("day-end-{name}"));
        let file = files.path().join("end.q");
        std::fs::write(&file, format!(".u.end:{{[d]{body}}}\n")).expect("written");
        let tick = Tick::start(&format!("day-end-{name}-tick"), &[]);
        let options = ["--memory", "256MiB", "--limit-day-end-time", "200ms"];
        let (_node, port) = node(&tick, "n1", &file, &options, files.path());
        let (mut feed, mut client) = with_seven_trades(&tick, port);
        answer(&mut feed, ".u.endofday[]");
        until(&mut client, "`failed=.rdb.stats`dayEnd");
        assert_eq!(answer(&mut client, "count trade"), Value::Long(0));
        feed.request(&trades(0..2)).expect("published");
        until(&mut client, "2=count trade");
        let health = page(port, "/health");
        assert!(health.starts_with("HTTP/1.1 200") && health.contains(".u.end["), "{health}");
        assert!(health.contains("failed") && health.contains(reason), "{health}");
        assert!(page(port, "/metrics").contains("elastick_day_ends_failed_total 1"));
    }
}

#[test]
fn a_function_that_ends_the_next_day_comes_to_an_end() {
    let tick = Tick::start("day-end-again-tick", &[]);
    let files = Directory::new("day-end-again");
    let file = files.path().join("end.q");
    let program =
        format!("ended:()\n.u.end:{{[d]ended::ended,d;h:hopen {};h\".u.endofday[`force]\";hclose h}}\n", tick.port);
    std::fs::write(&file, program).expect("written");
    let (_node, port) = node(&tick, "n1", &file, &["--memory", "256MiB"], files.path());
    let (mut feed, mut client) = with_seven_trades(&tick, port);
    let date = answer(&mut feed, ".u.d");
    answer(&mut feed, ".u.endofday[]");
    until(&mut client, "`failed=.rdb.stats`dayEnd");
    let Value::Date(date) = date else { panic!("a date: {date:?}") };
    let ended: Vec<i32> = (date..date + 3).collect();
    until(&mut client, "3=count ended");
    assert_eq!(answer(&mut client, "`int$ended"), Value::ints(ended));
    assert_eq!(answer(&mut feed, "`int$.u.d"), Value::Int(date + 3));
    assert!(page(port, "/health").contains("] failed: 'limit: day "), "{}", page(port, "/health"));
    let refused = feed.query(".u.endofday[`force]").expect_err("the day is far ahead").to_string();
    assert!(refused.contains("3 days ahead of the clock") && refused.contains("--limit-clock-jump"), "{refused}");
    // The new day continues.
    feed.request(&trades(0..5)).expect("published");
    until(&mut client, "5=count trade");
}

/// A page of a process.
fn page(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("written");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("an answer");
    page
}

#[test]
fn start_files_that_define_uncalled_functions_are_rejected() {
    let files = Directory::new("day-end-upd");
    let file = files.path().join("upd.q");
    std::fs::write(&file, "upd:{[t;x]t insert x}\n").expect("written");
    let file = file.to_str().expect("a path");
    let directory = files.path().to_str().expect("a path");
    for arguments in [&["rdb", ":1", file][..], &["tick", "sym", directory, file]] {
        let output = elastick(arguments).args(["-p", "127.0.0.1:0"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("define upd") && said.contains("never calls") && said.contains(".u.sub"), "{said}");
    }
    // With two parameters the call would return a projection, and the day would count as saved.
    for body in ["{[date;more]date}", "5", "\"save\""] {
        std::fs::write(file, format!(".u.end:{body}\n")).expect("written");
        let output = elastick(&["rdb", ":1", file]).args(["-p", "127.0.0.1:0"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(".u.end in the start-up files is not a function of one argument"), "{said}");
    }
}

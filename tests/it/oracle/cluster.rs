//! The tickerplant and node under attack, and their state as an administrator sees it.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::tick_support::{PATIENCE, call};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Items, Limits, Value};
use std::path::Path;

const USERS: &str = r#"
[roles.trades]
publish = ["trade"]
[roles.some]
subscribe = { trade = ["A"] }
[roles.few]
query = { trade = "sym in `A`B", hist = "n<3" }
[roles.notes]
query = { note = true }
[roles.spares]
node = ["spare"]
[roles.rdbs]
node = ["rdb"]
[roles.nothing]
operator = false
[users.feed]
password = "x"
roles = ["trades"]
[users.desk]
password = "x"
roles = ["some"]
[users.rows]
password = "x"
roles = ["few"]
[users.one]
password = "x"
roles = ["notes"]
[users.spare]
password = "x"
roles = ["spares"]
[users.ops]
password = "x"
roles = ["operator"]
[users.none]
password = "x"
roles = ["nothing"]
[users.rdb]
password = "x"
roles = ["rdbs"]
[users.other]
password = "x"
roles = ["query", "subscribe"]
[users.admin]
password = "x"
roles = ["publish", "subscribe", "query", "node", "operator"]
"#;

const SCHEMA: &str = "trade:([]time:`timespan$();sym:`symbol$();id:`long$())\n\
                      note:([]time:`timestamp$();sym:`symbol$();text:())\n\
                      idle:([]time:`timespan$();sym:`symbol$();id:`long$())\n";

/// The owner's start-up file of the node.
const NODE_PROGRAM: &str = "
hist:([]sym:`A`B`HIDHIST;n:1 2 3)
keyed:([sym:`A`HIDKEYED]n:1 2)
seen::select from trade
latest:{select last id by sym from trade}
agg:{[t]max t`id}
run:{value x}
owned:{x}
.ref.f:{trade}
.ref.rows:([]sym:`A`HIDREF;n:1 2)
";

const TICK_PROGRAM: &str = "owned:{x}\nrun:{value x}\n.ref.f:{x}\n";

/// A number in hidden rows, which no expression of an attacker has.
const HIDDEN_ID: i64 = 7_731_773_177_317_731;

/// A user under test.
pub struct Case {
    pub user: String,
    /// Names in [`Cluster::state`] that the user may change.
    pub own: &'static [&'static str],
    /// Marks of what the user must not see.
    pub hidden: Vec<Vec<u8>>,
}

impl Case {
    pub fn of(user: &str) -> Case {
        let own: &'static [&'static str] = match user {
            "feed" => &["updates", "trade", "quarantine"],
            "ops" => &[
                "updates",
                "date",
                "log",
                "schema",
                "subscriptions",
                "queue",
                "trade",
                "note",
                "idle",
                "log files",
                "quarantine",
            ],
            _ => &[],
        };
        let marks: &[&str] = match user {
            "one" => &["HIDTRADE", "HIDIDLE", "HIDHIST", "HIDKEYED", "HIDREF", "HIDTHEIRS"],
            _ => &["HIDTRADE", "HIDIDLE", "HIDHIST", "HIDKEYED", "HIDREF", "HIDTHEIRS", "HIDNOTE"],
        };
        let numbers = [HIDDEN_ID.to_le_bytes().to_vec(), HIDDEN_ID.to_string().into_bytes()];
        let hidden = marks.iter().map(|mark| mark.as_bytes().to_vec()).chain(numbers).collect();
        Case { user: user.to_owned(), own, hidden }
    }
}

pub struct Cluster {
    pub tick_port: u16,
    pub node_port: u16,
    /// Working directory of both processes; nobody may write there.
    work: Directory,
    logs: Directory,
    _tick: Process,
    _node: Process,
    admin: Client,
    node_admin: Client,
    /// Another user, who may query.
    other: Client,
    /// The same user, with a subscription.
    _watcher: Client,
    watcher_handle: i32,
    published: i64,
}

/// Logs in with the password of all users.
pub fn login(port: u16, user: &str) -> Client {
    let address = format!("127.0.0.1:{port}:{user}:x").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("a login")
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

fn update(table: &str, columns: impl IntoIterator<Item = Value>) -> Value {
    call(".u.upd", [Value::symbol(table), Value::list(columns)])
}

fn texts(texts: &[&str]) -> Value {
    Value::list(texts.iter().map(Value::chars))
}

const LIMITS: [&str; 4] = ["--limit-query-time", "200ms", "--limit-query-memory", "64MiB"];

impl Cluster {
    pub fn start(name: &str) -> Cluster {
        let (work, logs) = (Directory::new(&format!("oracle-{name}")), Directory::new(&format!("oracle-{name}-log")));
        let users = written(logs.path(), "users.toml", USERS);
        written(logs.path(), "sym.q", SCHEMA);
        let program = written(logs.path(), "tick.q", TICK_PROGRAM);
        let path = logs.path().to_string_lossy().into_owned();
        let common = ["-p", "127.0.0.1:0", "--unix-sockets=", "-U", &users];
        let arguments = [&["tick", "sym", &path, &program, "--schemas", &path][..], &common, &LIMITS].concat();
        let mut tick = Process::start(elastick(&arguments).current_dir(work.path()));
        let tick_port = tick.number_after("listening on");
        let program = written(logs.path(), "node.q", NODE_PROGRAM);
        let address = format!("127.0.0.1:{tick_port}:rdb:x");
        let arguments =
            [&["rdb", &address, &program, "--queue", "rdb", "--limit-client-wait", "50ms"][..], &common, &LIMITS];
        let mut node = Process::start(elastick(&arguments.concat()).current_dir(work.path()));
        let node_port = node.number_after("listening on");
        let mut watcher = login(tick_port, "other");
        watcher.request(&call(".u.sub", [Value::symbol("trade"), Value::symbol("")])).expect("subscribed");
        let watcher_handle = match watcher.query(".z.w").expect("a handle") {
            Value::Int(handle) => handle,
            other => panic!("{other:?}"),
        };
        let other = login(tick_port, "other");
        let (admin, node_admin) = (login(tick_port, "admin"), login(node_port, "admin"));
        let mut cluster = Cluster {
            tick_port,
            node_port,
            work,
            logs,
            _tick: tick,
            _node: node,
            admin,
            node_admin,
            other,
            _watcher: watcher,
            watcher_handle,
            published: 0,
        };
        cluster.prepare();
        cluster
    }

    fn prepare(&mut self) {
        let theirs = "theirs:([]sym:`A`HIDTHEIRS;n:1 2)";
        self.other.query(theirs).expect("defined");
        login(self.node_port, "other").query(theirs).expect("defined");
        let notes = [Value::symbols(["A", "HIDNOTE"]), texts(&["words", "HIDNOTE text"])];
        self.admin.request(&update("note", notes)).expect("published");
        self.admin
            .request(&update("idle", [Value::symbols(["HIDIDLE"]), Value::longs([HIDDEN_ID])]))
            .expect("published");
        // Rejected: it has no second column.
        self.admin.request(&update("idle", [Value::symbols(["HIDIDLE"])])).expect_err("too few columns");
        let file = self.logs.path().join("sym.rejected");
        wait_for("the file of rejected updates", || file.exists().then_some(()));
        self.publish_hidden_rows();
    }

    /// Publishes trades that only some may see, and waits for the node to have them, if it still takes part in the day.
    pub fn publish_hidden_rows(&mut self) {
        let columns = [Value::symbols(["A", "B", "HIDTRADE"]), Value::longs([1, 2, HIDDEN_ID])];
        self.admin.request(&update("trade", columns)).expect("published");
        self.published += 1;
        let Value::Long(all) = self.admin.query(".u.i").expect("a number") else { panic!("no number") };
        let has_all = |client: &mut Client| client.query(".rdb.stats`nextI").ok() == Some(Value::Long(all));
        wait_for("the node", || has_all(&mut self.node_admin).then_some(()));
    }

    /// Everything that a role may not change, unless [`Case::own`] says so.
    pub fn state(&mut self, case: &Case) -> Vec<(&'static str, String)> {
        let subscriptions = format!("{{x where x[;0]={}}}each .u.w", self.watcher_handle);
        let of_tick = [
            ("updates", ".u.i"),
            ("date", ".u.d"),
            ("log", ".u.L"),
            ("schema", ".u.t!{(cols x;exec t from meta x)}each value each .u.t"),
            ("subscriptions", &subscriptions),
            ("queue", "select node,state from .u.asg.tab where queue=`rdb"),
            ("quarantine", "count .u.quarantine"),
            ("names", "key`."),
            ("owner's", "(owned;run;.ref.f;@[value;`.z.pg;0];@[value;`.z.ps;0];@[value;`.z.pw;0])"),
        ];
        let of_node = [
            ("trade", "-15!-8!trade"),
            ("note", "-15!-8!note"),
            ("idle", "-15!-8!idle"),
            ("node names", "key`."),
            ("node owner's", "(latest;agg;run;owned;.ref.f;@[value;`.z.pg;0];@[value;`.z.ps;0];@[value;`.z.pw;0])"),
            ("node owner's data", "(hist;keyed;.ref.rows)"),
            ("node theirs", "theirs"),
        ];
        let mut out = Vec::new();
        let of_other = [("theirs", "theirs")];
        let all = [(&mut self.admin, &of_tick[..]), (&mut self.node_admin, &of_node), (&mut self.other, &of_other)];
        for (client, expressions) in all {
            for (name, expression) in expressions.iter().filter(|(name, _)| !case.own.contains(name)) {
                let value =
                    wait_for("an answer within the limits", || answered(client, name, &format!("-3!{expression}")));
                let Value::Vector { items: Items::Char(text), .. } = value else { panic!("{name}: {value:?}") };
                out.push((*name, String::from_utf8_lossy(&text).into_owned()));
            }
        }
        out.push(("working directory", listing(self.work.path())));
        if !case.own.contains(&"log files") {
            out.push(("log files", listing(self.logs.path())));
        }
        let users = std::fs::read_to_string(self.logs.path().join("users.toml")).unwrap_or_default();
        out.push(("users file", users));
        out
    }
}

/// The answer; `None` if the time limit, which holds for the administrator too, ended it on a busy machine.
fn answered(client: &mut Client, name: &str, text: &str) -> Option<Value> {
    match client.query(text) {
        Ok(value) => Some(value),
        Err(ClientError::Server(error)) if error.starts_with(b"stop") => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Names of the files in a directory.
fn listing(directory: &Path) -> String {
    let files = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> = files.map(|file| format!("{:?}", file.expect("a file").file_name())).collect();
    names.sort();
    names.join(" ")
}

/// What has changed.
pub fn difference(before: &[(&'static str, String)], after: &[(&'static str, String)]) -> Vec<String> {
    let pairs = before.iter().zip(after).filter(|(before, after)| before != after);
    pairs.map(|((name, before), (_, after))| format!("{name}: {before}\n  is now {after}")).collect()
}

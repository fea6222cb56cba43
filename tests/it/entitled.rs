//! A user whose `query` role permits some tables, and some rows of them, reads nothing else of a node, by whatever expression.

use crate::harness::{Directory, wait_for};
use crate::rdb_process::{Scene, ask, live, refused};
use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Items, Limits, Value};
use std::io::{Read, Write};
use std::time::Duration;

const USERS: &str = "
[roles.some]
query = { trade = \"sym in `S1`S2\", hist = \"n<3\" }
[roles.ones]
query = { trade = \"n=1\" }
[roles.broken]
query = { trade = \"nothing=1\" }
[users.ann]
password = \"x\"
roles = [\"query\"]
[users.bob]
password = \"x\"
roles = [\"some\"]
[users.both]
password = \"x\"
roles = [\"ones\", \"some\"]
[users.cut]
password = \"x\"
roles = [\"broken\"]
";

/// The third trade and quote have this number, in their symbol too.
const SECRET: i64 = 777_777;

const PROGRAM: &str = "
seen::select from trade
inside::select top:max quote`n from ([]a:1 2)
latest:{select last n by sym from trade}
agg:{[t]max t`n}
hist:([]sym:`S1`S777777;n:1 777777)
keyed:([sym:`S1`S777777]n:1 777777)
run:{value x}
.ref.f:{trade}
.z.ts:{copy::select from trade}
.z.pg:{last_query::x;value x}
.z.ph:{.h.hy[`txt] .Q.s1 trade}
.z.ws:{neg[.z.w] .j.j value x}
\\t 5
";

/// Expressions that return the secret to a user without restrictions.
const WAYS: &str = r#"
trade
select from trade
exec n from trade
select from trade where n>3
select sum n by sym from trade
select from trade where i=2
exec last n from trade
select[>n] from trade
update n:2*n from trade
delete sym from trade
?[trade;();0b;()]
?[`trade;();0b;()]
?[`trade;enlist(>;`n;3);0b;()]
?[`trade;();();`n]
?[trade;0 1 2;`n]
value `trade
get `trade
get "trade"
value "trade"
eval `trade
eval parse "select from trade"
reval parse "select from trade"
reval `trade
0 "trade"
`trade[2]
`trade[;`n]
trade 2
trade `n
trade.n
trade[2;`n]
.[`trade;(2;`n)]
.[trade;(2;`n)]
@[`trade;2]
last trade
first -1#trade
reverse trade
`n xdesc trade
`sym xkey trade
`sym xgroup trade
0!`sym xkey trade
ungroup `sym xgroup trade
flip trade
value flip trade
raze value flip trade
trade,trade
trade uj trade
trade lj `n xkey trade
trade ij `n xkey trade
aj[`sym`n;trade;trade]
wj[0 0+\:trade`n;`sym`n;trade;(trade;(max;`n))]
ej[`sym;trade;trade]
([]a:1 2) cross trade
{x}trade
{trade}[]
{[t]t}each enlist trade
{trade}peach 1 2
{value `trade}peach 1 2
max each flip `n#trade
exec max n from trade
(max;min)@\:trade`n
.Q.s trade
.Q.s1 trade
.j.j trade
-8!trade
-3!trade
-9!-8!trade
string trade`n
csv 0: trade
.h.cd trade
.h.td trade
.h.jx[0;`trade]
.Q.id trade
.Q.fc[{x};trade`n]
.Q.ft[{x};trade]
value `.
get `.
(value `.)`trade
`.[`trade]
.[`.;enlist`trade]
seen
value `seen
value seen
get `seen
inside
select from seen
latest[]
agg trade
agg `trade
.ref.f[]
run "trade"
run "seen"
hist
select from hist
value `hist
keyed
keyed `S777777
value `keyed
0!keyed
theirs
value `theirs
theirf[]
.ann.rows
value `.ann
copy
value `copy
exec n from quote
quote
value `quote
select from quote lj `n xkey trade
select from trade where n=(max;n) fby sym
system "v"; trade
x:trade; x
`y set trade; y
y2:`trade; select from y2
d:`t`u!`trade`quote; value d`t
select n from `trade
meta[`trade]`n; trade
@[value;`trade;{x}]
.[value;enlist`trade;{x}]
.Q.trp[value;`trade;{[e;b]e}]
$[1b;trade;0]
tables[]!value each tables[]
raze {enlist exec max n from x}each tables[]
last_query; trade
"#;

/// Expressions about the number of rows, with what the restricted user gets.
const COUNTS: [(&str, &str); 10] = [
    ("count trade", "2"),
    ("exec count i from trade", "2"),
    ("count value`trade", "2"),
    ("count each value flip trade", "2 2 2"),
    ("exec n from trade", "1 2"),
    ("exec sum n by sym from trade", "`s#`S1`S2!1 2"),
    ("exec first rows from .rdb.windows where tab=`trade", "0N"),
    ("`quote in exec tab from .rdb.windows", "0b"),
    ("asc tables[]", "`s#`hist`trade"),
    ("`keyed`quote`theirs`copy in key`.", "0000b"),
];

struct Node {
    scene: Scene,
    _files: Directory,
}

impl Node {
    fn new(name: &str) -> Node {
        let files = Directory::new(&format!("entitled-{name}"));
        let write = |file: &str, text: &str| {
            let path = files.path().join(file);
            std::fs::write(&path, text).expect("written");
            path.to_str().expect("a path").to_string()
        };
        let (users, program) = (write("users.toml", USERS), write("program.q", PROGRAM));
        let mut scene = live(&[&program, "-U", &users, "--remote-may", "files,sockets,system"]);
        scene.guest.feed("trade", &[1, 2, SECRET], 0);
        scene.guest.feed("quote", &[1, 2, SECRET], 1);
        let node = Node { scene, _files: files };
        let mut ann = node.client("ann");
        node.scene.holds(&mut ann, 3);
        wait_for("the quotes", || (ask(&mut ann, "count quote") == Value::Long(3)).then_some(()));
        for text in ["theirs:select from trade", "theirf:{[t]t}[trade]", ".ann.rows:trade", "seen;inside"] {
            ask(&mut ann, text);
        }
        wait_for("the timer", || (ask(&mut ann, "@[{count copy};();0]") == Value::Long(3)).then_some(()));
        node
    }

    fn client(&self, user: &str) -> Client {
        let address: Address = format!("127.0.0.1:{}:{user}:x", self.scene.port).parse().expect("an address");
        Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected")
    }
}

/// Whether the result of an expression has the secret in it: as text, as a symbol, or as a number in a serialised object.
fn tells(client: &mut Client, text: &str) -> bool {
    let shown = match client.query(text) {
        Ok(value) => format!("{value:?}"),
        Err(ClientError::Server(error)) => String::from_utf8_lossy(&error).into_owned(),
        Err(error) => panic!("{text}: {error}"),
    };
    let numbers = |bytes: &[u8]| bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let marks = [SECRET.to_string(), numbers(b"777777"), numbers(&SECRET.to_le_bytes()[..4])];
    marks.iter().any(|mark| shown.contains(mark))
}

#[test]
fn no_expression_reads_other_rows_or_tables() {
    let node = Node::new("ways");
    let (mut ann, mut bob) = (node.client("ann"), node.client("bob"));
    let mut wrong = Vec::new();
    for text in WAYS.lines().filter(|text| !text.is_empty()) {
        // The restricted user first: nothing is left over from the other's evaluation, and then everything is.
        let before = tells(&mut bob, text);
        if !tells(&mut ann, text) {
            wrong.push(format!("{text}: tells nothing to anyone"));
        }
        if before || tells(&mut bob, text) {
            wrong.push(format!("{text}: tells the secret"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn counts_and_names_are_those_of_the_users_rows() {
    let node = Node::new("counts");
    let mut bob = node.client("bob");
    let results: Vec<String> = COUNTS
        .iter()
        .map(|(text, _)| match ask(&mut bob, &format!(".Q.s1 {text}")) {
            Value::Vector { items: Items::Char(text), .. } => String::from_utf8_lossy(&text).into_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(results, COUNTS.map(|(_, wanted)| wanted));
    for text in ["quote", "select from quote", "keyed", "theirs", "copy", ".rdb.stats"] {
        assert_eq!(refused(&mut bob, text), "access", "{text}");
    }
    for text in ["read0 `:/etc/hosts", "system \"ls\"", "hopen 1"] {
        assert_eq!(refused(&mut bob, text), "access", "{text}");
    }
    assert_eq!(refused(&mut bob, "`trade insert (`S1;5)"), "noupdate");
    // A user's own globals are the user's.
    assert_eq!(ask(&mut bob, "mine:select from trade;count mine"), Value::Long(2));
    assert_eq!(ask(&mut bob, "`mine upsert mine;count mine"), Value::Long(4));
    assert_eq!(refused(&mut node.client("ann"), "count mine"), "mine");
}

#[test]
fn several_roles_unite_their_rows_and_a_wrong_clause_permits_none() {
    let node = Node::new("unite");
    assert_eq!(ask(&mut node.client("both"), "exec n from trade"), Value::longs([1, 2]));
    assert_eq!(refused(&mut node.client("cut"), "count trade"), "access");
}

#[test]
fn pages_and_web_sockets_have_the_users_rows() {
    let node = Node::new("web");
    let page = |user: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", node.scene.port)).expect("connected");
        let login = match user {
            "ann" => "YW5uOng=",
            _ => "Ym9iOng=",
        };
        let request =
            format!("GET /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        page
    };
    assert!(page("ann").contains("777777"));
    let own = page("bob");
    assert!(own.contains("S2") && !own.contains("777777"), "{own}");
}

//! Expressions made at random from the grammar: whatever they say, the evaluator answers with a value or an error, in
//! time, and what it answers can be shown and sent.

use elastick::q::session::Session;
use elastick::q::{Limits, eval_text, show};
use std::time::{Duration, Instant};

const ATOMS: [&str; 44] = [
    "0",
    "1",
    "-1",
    "3",
    "0N",
    "0W",
    "1.5",
    "0n",
    "-0w",
    "1b",
    "0x0a",
    "2h",
    "3i",
    "1e",
    "\"a\"",
    "\"abc\"",
    "\"\"",
    "`a",
    "`",
    "`a`b`c",
    "1 2 3",
    "1 0N 3",
    "1.5 0n",
    "01b",
    "()",
    "til 5",
    "2026.11.21",
    "12:30",
    "0D00:00:01",
    "(1;`a;\"x\")",
    "(1 2;3 4)",
    "t",
    "d",
    "kt",
    "e",
    "fk",
    "st",
    "v",
    "0Nd",
    "2024.01m",
    "`d$`a`b",
    "\"{\\\"a\\\":[1,null]}\"",
    "0x0100000011000000f90100000000000000",
    "(1 2f;3 4f)",
];
const VERBS: [&str; 62] = [
    "+", "-", "*", "%", "&", "|", "^", "=", "<", ">", "<=", ">=", "<>", "$", ",", "#", "_", "~", "!", "?", "@", ".",
    "in", "within", "like", "bin", "div", "mod", "xbar", "union", "inter", "except", "cross", "cut", "sublist",
    "rotate", "xprev", "xasc", "xdesc", "xkey", "lj", "uj", "wavg", "vs", "sv", "each", "over", "mavg", "mmu", "lsq",
    "0:", "1:", "ij", "pj", "ujf", "asof", "upsert", "xcol", "xgroup", "fby", "binr", "ss",
];
const WORDS: [&str; 70] = [
    "til", "count", "first", "last", "sum", "avg", "min", "max", "med", "dev", "var", "sums", "deltas", "distinct",
    "group", "where", "asc", "desc", "iasc", "idesc", "reverse", "raze", "flip", "enlist", "cols", "meta", "keys",
    "key", "value", "type", "string", "upper", "lower", "null", "neg", "abs", "floor", "ceiling", "sqrt", "exp", "not",
    "fills", "prev", "next", "differ", "rank", "prds", "ungroup", "parse", "eval", "inv", "md5", "fkeys", "reval",
    ".j.j", ".j.k", ".Q.s1", ".Q.id", ".Q.ty", ".Q.btoa", ".Q.atob", "-9!", "-4!", "-8!", "-14!", "-18!", ".h.hu",
    ".h.uh", ".Q.sha1", "rand",
];
const ITERATORS: [&str; 6] = ["'", "/", "\\", "':", "/:", "\\:"];

struct Maker(fastrand::Rng);

impl Maker {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.usize(0..from.len())]
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&ATOMS).to_owned();
        }
        let sub = |s: &mut Maker| s.expression(depth - 1);
        match self.0.u8(0..20) {
            0 => self.pick(&ATOMS).to_owned(),
            1 | 2 => format!("{} {}", self.pick(&WORDS), sub(self)),
            3..=5 => format!("({}) {} {}", sub(self), self.pick(&VERBS), sub(self)),
            6 => format!("({}{}) {}", self.pick(&VERBS[..22]), self.pick(&ITERATORS), sub(self)),
            7 => format!("({}) {}{} {}", sub(self), self.pick(&VERBS[..22]), self.pick(&ITERATORS), sub(self)),
            8 => format!("({};{})", sub(self), sub(self)),
            9 => format!("{{{}}}[{};{}]", sub(self).replace("til 5", "x"), sub(self), sub(self)),
            10 => format!("{}[{};{}]", self.pick(&["@", ".", "?", "!", "$", "f", "t", "d"]), sub(self), sub(self)),
            11 => format!("select {} by {} from t where {}", self.column(), self.column(), self.column()),
            12 => format!("@[{};{};{}]", sub(self), sub(self), sub(self)),
            13 => format!("x:{};x[{}]:{}", sub(self), sub(self), sub(self)),
            14 => format!("({};{}):{}", self.pattern(), self.pattern(), sub(self)),
            15 => format!(":[{};{};{};{}]", sub(self), self.pattern(), sub(self), sub(self)),
            16 => format!("\"{}\"${}", self.pick(&["D", "P", "N", "I", "G", "B", "S", "T", "x", "*"]), sub(self)),
            17 => format!("{}[`a;t;{}]", self.pick(&["aj", "aj0", "ej"]), sub(self)),
            18 => format!(".[{};{};{};{}]", sub(self), sub(self), self.pick(&VERBS), sub(self)),
            _ => format!("x:{};x,:{};x", sub(self), sub(self)),
        }
    }

    /// What may stand left of an assignment by form.
    fn pattern(&mut self) -> String {
        let atom = self.pick(&ATOMS).to_owned();
        match self.0.u8(0..6) {
            0 => atom,
            1 => "x".into(),
            2 => "(y;z)".into(),
            3 => format!("y:{atom}"),
            4 => "([a:x])".into(),
            _ => String::new(),
        }
    }

    fn column(&mut self) -> String {
        let (word, verb) = (self.pick(&WORDS), self.pick(&VERBS));
        let name = self.pick(&["a", "b", "c", "i", "1"]);
        match self.0.u8(0..3) {
            0 => name.to_owned(),
            1 => format!("{word} {name}"),
            _ => format!("{name} {verb} {}", self.pick(&ATOMS)),
        }
    }
}

const DOMAIN: &str = "w:`p`q";
const STEPS: &str = "st:`s#0 10!`low`high";

fn session() -> Session {
    let mut session = Session::new();
    for line in [
        "t:([]a:1 2 3;b:`x`y`x;c:1.5 0n 2)",
        "d:`a`b!1 2",
        "kt:([k:`a`b]v:1 2)",
        "f:{x+y}",
        DOMAIN,
        "e:`w$`p`q",
        "fk:([]k:`kt$`a`b`a;n:1 2 3)",
        STEPS,
        "v::count t",
    ] {
        eval_text(&mut session, line.as_bytes(), &Limits::default()).expect("a definition");
    }
    session
}

fn answer(expression: &str) {
    let limits = Limits { deadline: Some(Instant::now() + Duration::from_secs(2)), memory_bytes: 64 << 20 };
    let start = Instant::now();
    let mut session = session();
    if let Ok(value) = eval_text(&mut session, expression.as_bytes(), &limits) {
        show(&value, &elastick::q::Console::default());
        let mut bytes = Vec::new();
        let mut writer = proto::Writer::new(&mut bytes);
        let sent = elastick::q::to_wire(&value, &mut writer).is_ok() & writer.finish().is_ok();
        if sent {
            let limits = proto::Limits::default();
            proto::View::parse(&bytes, proto::Endian::Little, &limits).unwrap_or_else(|e| panic!("{expression}: {e}"));
        }
    }
    assert!(start.elapsed() < Duration::from_secs(60), "hangs: {expression}");
}

#[test]
fn random_expressions_end_in_a_value_or_an_error() {
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_121);
    let count = std::env::var("FUZZ_COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(4000);
    println!("seed {seed}");
    let mut maker = Maker(fastrand::Rng::with_seed(seed));
    let mut wrong = Vec::new();
    for _ in 0..count {
        let depth = maker.0.usize(1..4);
        let expression = maker.expression(depth);
        let told = std::panic::catch_unwind(|| answer(&expression));
        if told.is_err() {
            wrong.push(expression);
        }
    }
    assert!(wrong.is_empty(), "seed {seed}: {} panic\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn random_bytes_end_in_a_value_or_an_error() {
    let pieces = "()[]{};'/\\:`\"+-*%&|^=<>$,#_~!?@.0123456789abcxyz \n";
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..4000 {
        let length = random.usize(0..40);
        let text: String = (0..length).map(|_| pieces.as_bytes()[random.usize(0..pieces.len())] as char).collect();
        answer(&text);
    }
}

#[test]
fn depth_is_an_error_and_not_a_crash() {
    let deep = 200_000;
    for text in [
        "(".repeat(deep),
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        "1+".repeat(deep) + "1",
        "{".repeat(deep),
        "x[".repeat(deep),
        "neg ".repeat(deep) + "1",
        "{.z.s x}1".to_owned(),
        "g:{h x};h:{g x};g 1".to_owned(),
        "x:();do[100000;x:enlist x];x".to_owned(),
        "x:{y};do[100000;x:x[;]];1".to_owned(),
        "x:();do[100000;x:(x;1)];x~x".to_owned(),
        "{x,x}/[1000;til 1000]".to_owned(),
        "til 1000000000000".to_owned(),
        "while[1b;1]".to_owned(),
        "1000000000 1000000000#1".to_owned(),
        "1000000000000 0#1".to_owned(),
    ] {
        answer(&text);
    }
}

//! Differential tests of the register VM: lambdas that it runs give the evaluator's values, and its errors with the same backtrace.

use columns::table::Value;
use elastick_q::session::Session;
use elastick_q::{Console, Limits, QError, eval_text, show};
use std::time::{Duration, Instant};

const ATOMS: [&str; 26] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "-5",
    "100",
    "0N",
    "0W",
    "-0W",
    "1.5",
    "-2.25",
    "0n",
    "0w",
    "-0w",
    "1b",
    "0b",
    "3i",
    "0Ni",
    "2h",
    "0x05",
    "1e",
    "\"a\"",
    "`s",
    "2026.11.21",
];
/// Numeric operands only, the most common case in programs.
const NUMBERS: [&str; 12] = ["0", "1", "2", "3", "-1", "10", "0N", "1.5", "0.1", "1b", "3i", "0W"];
const VERBS: [&str; 22] = [
    "+", "-", "*", "%", "&", "|", "=", "<", ">", "<=", ">=", "<>", "^", "~", "and", "or", "div", "mod", "xbar", "xexp",
    "in", "$",
];
const WORDS: [&str; 12] =
    ["neg", "abs", "not", "floor", "sqrt", "null", "signum", "count", "first", "sum", "reciprocal", "type"];
const LOCALS: [&str; 5] = ["x", "y", "a", "b", "c"];

struct Maker(fastrand::Rng);

impl Maker {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.usize(0..from.len())]
    }

    fn atom(&mut self) -> &'static str {
        if self.0.u8(0..6) == 0 { self.pick(&ATOMS) } else { self.pick(&NUMBERS) }
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.0.u8(0..3) == 0 { self.atom().to_owned() } else { self.pick(&LOCALS[..4]).to_owned() };
        }
        let sub = |s: &mut Maker| s.expression(depth - 1);
        match self.0.u8(0..24) {
            0..=8 => format!("({}){} {}", sub(self), self.verb(), sub(self)),
            9 | 10 => format!("({}){} {}", sub(self), self.verb(), self.atom()),
            11 | 12 => format!("{} {}", self.pick(&WORDS), sub(self)),
            13 | 14 => format!("$[{};{};{}]", sub(self), sub(self), sub(self)),
            15 => format!("$[{};{};{};{};{}]", sub(self), sub(self), sub(self), sub(self), sub(self)),
            16 => format!("({}:{})", self.pick(&LOCALS), sub(self)),
            // Glyphs only: a name before a keyword would merge with it.
            17 => format!("({}{}:{})", self.pick(&LOCALS), self.pick(&VERBS[..14]), sub(self)),
            18 => format!("v[{}]", sub(self)),
            19 => format!("n+{}", sub(self)),
            20 => format!("g[{};{}]", sub(self), sub(self)),
            21 => format!("{{x-2*y}}[{};{}]", sub(self), sub(self)),
            22 => format!("w {}", sub(self)),
            _ => self.pick(&LOCALS).to_owned(),
        }
    }

    fn verb(&mut self) -> String {
        let verb = if self.0.bool() { self.pick(&VERBS[..11]) } else { self.pick(&VERBS) };
        format!(" {verb}")
    }

    fn statement(&mut self, depth: usize) -> String {
        let local = self.pick(&LOCALS);
        match self.0.u8(0..14) {
            0..=4 => format!("{local}:{}", self.expression(2)),
            5 | 6 => format!("{local}{}:{}", self.pick(&["+", "-", "*", "&", "|", "%", ","]), self.expression(1)),
            7 if depth > 0 => format!("if[{};{};{}]", self.expression(1), self.statement(depth - 1), self.statement(0)),
            8 if depth > 0 => format!("do[{};{}]", self.pick(&["0", "1", "3", "5", "5&x"]), self.statement(depth - 1)),
            9 | 10 if depth > 0 => {
                let (first, second) = (self.statement(depth - 1), self.statement(0));
                format!("k{depth}:0;while[k{depth}<{};{first};k{depth}+:1;{second}]", self.0.u8(0..6))
            }
            11 => format!("if[{};:{}]", self.expression(1), self.expression(1)),
            12 => format!("if[{};'\"out\"]", self.expression(1)),
            _ => self.expression(2),
        }
    }

    fn lambda(&mut self) -> String {
        let statements: Vec<String> = (0..self.0.usize(1..6)).map(|_| self.statement(2)).collect();
        format!("{{[x;y]a:1;{};{}}}", statements.join(";"), self.expression(2))
    }

    /// A statement of a loop that changes the lists `l`, `m` and `x` and the atom `s`.
    fn change(&mut self) -> String {
        let list = self.pick(&["l", "l", "m", "x"]);
        let atom = self.pick(&["1", "i", "s", "2.5", "0b", "0N", "i*2", "count l", "l[i]", "m 0", "\"c\"", "i mod 3"]);
        let index = self.pick(&["0", "i", "i mod 3", "1", "s", "count l", "-1", "2 0"]);
        match self.0.u8(0..14) {
            0..=2 => format!("{list}[{index}]:{atom}"),
            3 | 4 => format!("{list}[{index}]{}:{atom}", self.pick(&["+", "-", "*", "|", "&", "%"])),
            5 | 6 => format!("{list},:{atom}"),
            7 => format!(
                "{list}:{}",
                self.pick(&["l", "m", "x", "til 4", "5#0", "()", "l+1", "reverse l", "m,l", "\"ab\""])
            ),
            8 | 9 => format!("s:{}", self.pick(&["l[i]", "m 1", "count l", "sum m", "last l", "first x", "s+l i"])),
            10 => format!("if[i>{};{list}[{index}]:{atom}]", self.0.u8(0..6)),
            11 => format!("l:h[{list};{index};{atom}]"),
            12 => format!("s:(l~m)+{list}[{index}]:{atom}"),
            _ => format!("s+:{atom}"),
        }
    }

    fn list_lambda(&mut self) -> String {
        let changes: Vec<String> = (0..self.0.usize(1..5)).map(|_| self.change()).collect();
        let (rounds, result) = (self.0.u8(1..7), self.pick(&["l", "m", "s", "x", "l~x"]));
        format!("{{[x;y]l:til 5;m:x;s:0;i:0;while[i<{rounds};{};i+:1];{result}}}", changes.join(";"))
    }

    /// Two mutually recursive functions, and a condition that ends both.
    fn mutual(&mut self) -> (String, String) {
        let test = self.pick(&["x<1", "x=0", "x<=0", "1>x", "not x>0", "x<>x|1"]);
        let end = self.pick(&["x", "y", "0b", "7", "y+1", "y-3", "`end", "1.5", "()", "x+y"]);
        let (other, verb) = (self.pick(&["y", "y+1", "x", "x mod 3", "y-0.5", "2-y"]), self.pick(&VERBS[..11]));
        let first = format!("{{[x;y]$[{test};{end};g[x-1;{other}]]}}");
        let second = format!("g:{{[x;y]c:x div 2;$[y=9;c;(f[x-1;y]) {verb} x-c]}}");
        (first, format!("{second};f[{};{}]", self.0.u8(0..7), self.atom()))
    }

    /// A recursion that terminates.
    fn recursion(&mut self) -> String {
        let (end, step) = (self.expression(1), self.expression(1));
        let call = ["f[x-1;y]", ".z.s[x-1;y]", "f[x-1;y]+.z.s[x-2;x]"];
        format!("{{[x;y]a:2;b:y;$[x<1;{end};({}) {} {step}]}}", self.pick(&call), self.pick(&VERBS[..11]))
    }
}

/// Modifies a copy of its argument.
const H: &str = "h:{[v;i;a]do[1;v[i]:a];v}";

fn session(f: &str) -> Session {
    let mut session = Session::new();
    for line in ["v:10 20 0N 40", "w:1.5 0n 2", "n:5", "g:{$[x>y;x-y;y+x]}", H, &format!("f:{f}")] {
        eval_text(&mut session, line.as_bytes(), &Limits::default()).expect("a definition");
    }
    session
}

type Told = Result<Vec<u8>, (QError, Vec<u8>)>;

fn told(result: Result<Value, QError>) -> Told {
    let wide = Console { precision: 0, ..Console::default() };
    result.map(|value| show(&value, &wide)).map_err(|error| match &error.name[..] {
        // The recursion limit differs between VM and evaluator.
        b"stack" => (QError::named("stack"), Vec::new()),
        _ => (error.clone(), error.shown()),
    })
}

fn run(f: &str, text: &str, machine: bool) -> Told {
    let limits = Limits { deadline: Some(Instant::now() + Duration::from_secs(20)), machine, ..Limits::default() };
    told(eval_text(&mut session(f), text.as_bytes(), &limits))
}

/// Evaluates both ways, twice in one session: the second call uses compiled code.
fn check(f: &str, text: &str) -> Option<String> {
    let (walked, run_by_machine) = (run(f, text, false), run(f, text, true));
    (walked != run_by_machine).then(|| format!("{f}\n  {text}\n  {walked:?}\n  {run_by_machine:?}"))
}

fn seed() -> u64 {
    std::env::var("FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_121)
}

fn compare(count: usize, mut make: impl FnMut(&mut Maker) -> (String, String)) {
    let seed = seed();
    println!("seed {seed}");
    let mut maker = Maker(fastrand::Rng::with_seed(seed));
    let mut wrong = Vec::new();
    for _ in 0..count {
        let (f, text) = make(&mut maker);
        wrong.extend(check(&f, &text));
    }
    assert!(wrong.is_empty(), "seed {seed}: {} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn programs_of_one_lambda_agree() {
    compare(3000, |m| {
        let (f, x, y) = (m.lambda(), m.atom(), m.atom());
        (f, format!("(f[{x};{y}];f[{y};{x}])"))
    });
}

#[test]
fn loops_over_lists_agree() {
    compare(2500, |m| {
        let lists = [
            "1 2 3",
            "1.5 2.5",
            "01010b",
            "0#0",
            "()",
            "\"text\"",
            "(1;`a;2.5)",
            "`a`b!1 2",
            "`s#1 2 3",
            "3",
            "1 2 3i",
        ];
        let (f, x) = (m.list_lambda(), m.pick(&lists));
        (f, format!("z:{x};(f[z;1];z;f[z;2])"))
    });
}

#[test]
fn values_of_a_caller_are_not_changed() {
    for machine in [true, false] {
        let f = "{[x]i:0;y:x;while[i<3;x[i]:9;x,:i;i+:1];$[x~y;0;x]}";
        assert_eq!(run(f, "z:1 2 3;r:f z;(z;r)", machine), Ok(b"1 2 3\n9 9 9 0 1 2\n".to_vec()), "{machine}");
        let top = "z:1 2 3;y:z;do[3;z[0]+:1;z,:7];(y;z)";
        assert_eq!(run(f, top, machine), Ok(b"1 2 3\n4 2 3 7 7 7\n".to_vec()), "{machine}");
    }
}

#[test]
fn recursions_agree() {
    compare(1000, |m| {
        let (f, x, y) = (m.recursion(), m.0.u8(0..8), m.atom());
        (f, format!("f[{x};{y}]"))
    });
}

#[test]
fn functions_that_call_one_another_agree() {
    compare(1500, Maker::mutual);
}

#[test]
fn well_known_recursions_give_what_they_should() {
    for machine in [true, false] {
        for (f, text, wanted) in [
            ("{$[x<2;x;.z.s[x-1]+.z.s[x-2]]}", "f each til 11", &b"0 1 1 2 3 5 8 13 21 34 55\n"[..]),
            ("{$[y=0;x;f[y;x mod y]]}", "(f[1071;462];f[462;1071];f[7;0])", b"21 21 7\n"),
            ("{$[x=0;y+1;y=0;f[x-1;1];f[x-1;f[x;y-1]]]}", "f[2;3]", b"9\n"),
            ("{$[x=0;1b;{$[x=0;0b;f x-1]}x-1]}", "f each til 5", b"10101b\n"),
            ("{[k;n]a:n-1;b:k*2;$[n<1;b;a+f[k;n-1]]}", "f[3] each 0 1 5", b"6 6 16\n"),
            ("{$[x<2;1;x*f x-1]}", "f each 1 5 20", b"1 120 2432902008176640000\n"),
        ] {
            assert_eq!(run(f, text, machine), Ok(wanted.to_vec()), "{f}");
        }
    }
}

#[test]
fn iterators_over_lambdas_agree() {
    compare(1500, |m| {
        let f = m.lambda();
        let lists =
            ["1 2 3 4", "1.5 0n -3", "1 0N 3", "0101b", "1 2 3i", "()", "0#0", "enlist 5", "(1;2.5;3)", "`a`b!1 2"];
        let (list, atom) = (m.pick(&lists), m.atom());
        let text = match m.0.u8(0..18) {
            9 => format!("f'[{list};{list}]"),
            10 => format!("f'[{atom};{list}]"),
            11 => format!("{{f[x;y]-z}}\\[{atom};{list};{list}]"),
            12 => format!("{{f[y;z]-x}}/[{atom};1 2 3 4;{atom}]"),
            13 => format!("3 f[;2]\\{atom}"),
            14 => format!("{{x<50}}{{x+1|abs f[1;x]}}\\{}", m.0.u8(0..60)),
            15 => format!("5 f[1]/{list}"),
            16 => format!("{list} f[2;]\\: {atom}"),
            17 => format!("(7 f':){list}"),
            0 => format!("f/[{list}]"),
            1 => format!("f/[{atom};{list}]"),
            2 => format!("f\\[{list}]"),
            3 => format!("f\\[{atom};{list}]"),
            4 => format!("{atom} f/: {list}"),
            5 => format!("{list} f\\: {atom}"),
            6 => format!("f[;{atom}] each {list}"),
            7 => format!("{{f[x;x]}} each {list}"),
            _ => format!("(f':){list}"),
        };
        (f, text)
    });
}

#[test]
fn a_function_that_is_assigned_anew_is_the_new_one() {
    for machine in [true, false] {
        let mut session = session("{g[x;1]}");
        let limits = Limits { machine, ..Limits::default() };
        let mut ask = |text: &str| told(eval_text(&mut session, text.as_bytes(), &limits));
        let before = ask("f 5");
        assert_eq!(before, Ok(b"4\n".to_vec()));
        assert!(ask("g:{x*100+y}").is_ok());
        assert_eq!(ask("f 5"), Ok(b"505\n".to_vec()));
        assert!(ask("g:7 8 9;h:{n+g x}").is_ok());
        assert_eq!(ask("h 1"), Ok(b"13\n".to_vec()));
        assert!(ask("n:0.5").is_ok());
        assert_eq!(ask("h 2"), Ok(b"9.5\n".to_vec()));
    }
}

#[test]
fn an_item_sees_changes_of_the_item_before() {
    let f = "{if[x=3;n::100];x+n}";
    let expected = Ok(b"6 7 103 104\n".to_vec());
    for machine in [true, false] {
        assert_eq!(run(f, "f each 1 2 3 4", machine), expected);
    }
}

#[test]
fn effects_before_an_error_happen_once() {
    let f = "{c::c+1;i:0;while[i<10;i+:1];i+`a}";
    for machine in [true, false] {
        assert_eq!(run(f, "c:0;@[f;1;{}];@[f;1;{}];c", machine), Ok(b"2\n".to_vec()));
    }
}

#[test]
fn endless_loops_and_recursions_end() {
    for (f, name) in [
        ("{while[1b;x+:1]}", &b"stop"[..]),
        ("{while[x<>0N;x+:1]}", b"stop"),
        ("{.z.s x+1}", b"stack"),
        ("{1+.z.s x+1}", b"stack"),
        ("{$[x<0;x;f[x+1]]}", b"stack"),
    ] {
        let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(300)), ..Limits::default() };
        let error = eval_text(&mut session(f), b"f 1", &limits).unwrap_err();
        assert_eq!(&error.name[..], name, "{f}");
        assert_eq!(error.trace().first().map(|place| &place.name[..]), Some(&b"f"[..]), "{f}");
    }
}

#[test]
fn a_constant_that_is_returned_stays_as_it_is_written() {
    for machine in [true, false] {
        for (f, wanted) in [
            ("{[n]i:0;s:0;while[i<n;l:{$[x;1 2;3 4]}1b;l[0]:9;l,:5;s+:sum l;i+:1];s}", &b"48\n"[..]),
            ("{[n]i:0;s:0;while[i<n;l:1 2;l[0]:9;l,:5;s+:sum l;i+:1];s}", b"48\n"),
            ("{[n]i:0;s:0;while[i<n;l:h[1 2;0;9];l[1]:1;m:h[1 2;0;8];s+:sum[l]*sum m;i+:1];s}", b"300\n"),
        ] {
            assert_eq!(run(f, "f 3", machine), Ok(wanted.to_vec()), "{f}");
        }
    }
}

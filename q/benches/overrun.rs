//! How far evaluations exceed their time limit: random expressions over large arguments, each with a deadline.
//!
//!     cargo bench -p elastick-q --bench overrun [-- EXPRESSIONS [SEED [MILLISECONDS]]]
//!
//! Limit and overruns are CPU time, so that other programs do not count. Prints the longest overruns: the time after the limit until
//! the result is written for a client and freed. Every primitive and library function occurs several times. Asserts nothing.

use columns::sys::clock::thread_processor_time;
use elastick_q::session::Session;
use elastick_q::{Limits, eval_text, to_wire};
use std::time::{Duration, Instant};

/// Large arguments, up to 64 MB each.
const DEFINITIONS: &str = "\
n:8000000
L:n?1000000
O:til n
I:n?1000000i
H:n?1000h
F:n?100f
E:n?1e
B:n?0b
X:n?0x0
C:n?\" \"
D:n?.z.d
P:n?.z.p
S:n?`a`b`c`d`e
Y:n?`3
G:(n div 2)?0Ng
W:(n div 16)#enlist \"abc def\"
V:(n div 8)#(1;`a;\"x\";2f)
J:\"[\",(\",\"sv string til 500000),\"]\"
Q:\"1+\",(-1_raze(n div 4)#enlist \"1 +\"),\"1\"
Z:-8!L
T:([]a:L;b:F;s:S)
K:([k:O]v:F)
U:([k:1000000#Y]v:1000000#F)
R:`s`a xasc([]s:1000000#S;a:1000000#L;b:1000000#F)
A:([]a:til 100000;b:100000#enlist til 20)
M:(400 400)#160000#F
N:(n div 8;8)#L
";

const LARGE: [&str; 26] = [
    "L", "O", "I", "H", "F", "E", "B", "X", "C", "D", "P", "S", "Y", "G", "W", "V", "J", "Q", "Z", "T", "K", "U", "R",
    "A", "M", "N",
];
const SMALL: [&str; 14] =
    ["3", "0", "-2", "1000", "2f", "0.5", "`a", "`a`b", "\"a\"", "\"*a*\"", "0 1 2", "1000000", "n", "neg"];

/// Functions of one argument.
const ONE: &str = "flip neg first reciprocal where reverse null group iasc idesc string count floor not key distinct type value avg last \
sum prd min max abs sqrt log exp sin asin cos acos tan atan enlist var dev til all any asc desc attr avgs ceiling cols deltas differ \
eval fills keys lower ltrim maxs med meta mins next parse prds prev rank ratios raze rtrim sdev signum sums svar trim ungroup upper \
rand inv md5 .Q.s .Q.s1 .Q.ty .Q.id .Q.qt .Q.sha1 .Q.btoa .Q.atob .Q.V .Q.fk .Q.s2 .Q.ld .Q.gz .j.j .j.k .h.cd .h.td .h.hu .h.uh .h.xs \
-3! -4! -5! -8! -9! -14! -15! -18! -22! -29! -31! -33! hsym fkeys .Q.opt .Q.x10 .Q.j10 .Q.x12 .Q.j12";

/// Functions of two arguments.
const TWO: &str = "+ - * % & | ^ = < > $ , # _ ~ ! ? @ . <= >= <> in within like bin binr ss insert wsum wavg div xexp cov cor mod \
xlog xbar and or each over scan prior upsert union inter except cross cut sublist rotate xprev xrank xasc xdesc xkey xcol xcols xgroup \
fby lj ljf ij ijf pj uj ujf asof vs sv scov mmu lsq msum mavg mcount mdev mmax mmin ema .Q.fmt .Q.f .Q.fc .Q.ft .Q.fu .Q.ff .Q.ind \
.Q.dd .Q.addmonths .Q.def 0:";

/// Other forms; `%` is a large argument.
const FORMS: &[&str] = &[
    "ssr[C;\"a\";\"bcd\"]",
    "ssr[J;\",\";\"; \"]",
    "aj[`s`a;R;R]",
    "aj0[`s`a;R;R]",
    "wj[(-10 10)+\\:R`a;`s`a;R;(R;(max;`b))]",
    "ej[`s;1000#R;R]",
    "select sum b by s from T",
    "select max b by a from T",
    "select med b by s from T",
    "select from T where s=`a,b>50",
    "select from T where a in L",
    "select from T where b=(max;b)fby s",
    "select distinct a from T",
    "exec b by s from T",
    "update c:sums b by s from T",
    "update c:2*b from T",
    "delete from T where b>50",
    "select[10;>b] from T",
    "`b xasc T",
    "`s`b xdesc T",
    "T,T",
    "T~T",
    "(-9!Z)~L",
    "L~-9!Z",
    "T T`a",
    "L?L",
    "O?reverse O",
    "K[O]",
    "U Y",
    "@[L;O;+;1]",
    "@[L;L;:;0]",
    ".[N;(til 1000;1);+;1]",
    "{x+y}/[%]",
    "{x+y}\\[%]",
    "+/[%]",
    "+\\[%]",
    "{x*x}each %",
    "max each %",
    "(neg')%",
    "%+/:til 100",
    "%(+)\\:til 100",
    "(-':)%",
    "string each %",
    "`$string %",
    "\"J\"$string L",
    "\"F\"$W",
    "\"S\"$W",
    "\"i\"$%",
    "\"f\"$%",
    "`date$%",
    "-50?L",
    "-4000000?L",
    "-4000000?n",
    "n?%",
    "n?1f",
    "n?`8",
    "0N?n",
    "20000000?100",
    "where n#2",
    "where B",
    "10 20 sublist %",
    "raze 1000#enlist 1000#%",
    "raze string %",
    "\",\"vs J",
    "\",\"sv string L",
    "\" \"vs C",
    "C like \"*aaaaaaaa*\"",
    "S like \"a*\"",
    "W like \"*d*f\"",
    "64 vs L",
    "0x0 vs/:L",
    "10 sv 1000000#L mod 10",
    "0b sv B",
    "(n div 8)cut L",
    "10 cut L",
    "(2 0N)#L",
    "(n;2)#L",
    "{x,x}/[20;1000#%]",
    "2000 xrank L",
    "1000000 mmax L",
    "1000 mdev F",
    "M mmu M",
    "inv M",
    "M lsq M",
    "count each group %",
    "count distinct %",
    "asc %",
    "%=%",
    "%~reverse %",
    "distinct each N",
    "flip N",
    "flip flip N",
    "parse Q",
    "value Q",
    "parse J",
    "-8!%",
    "-9!-8!%",
    "-18!%",
    "-9!-18!%",
    ".j.k .j.j %",
    ".Q.s1 %",
    "-3!%",
    ".h.jx[0;`T]",
    "csv 0:T",
    "(\"JF\";\",\")0:(W;W)",
    "`:nothing?S",
    "`p#asc %",
    "`u#%",
    "`s#%",
    "`g#%",
    "%!%",
    "(til count %)!%",
    "x:%;x,:x;x",
    "do[1000;neg %]",
    "til 1000000000",
    "1000000000#1b",
];

fn expressions(count: usize, random: &mut fastrand::Rng) -> Vec<String> {
    fn one<'a>(random: &mut fastrand::Rng, of: &[&'a str]) -> &'a str {
        of[random.usize(0..of.len())]
    }
    let (unary, binary): (Vec<&str>, Vec<&str>) = (ONE.split_whitespace().collect(), TWO.split_whitespace().collect());
    let mut out = Vec::with_capacity(count);
    for at in 0..count {
        // In turn, so that each occurs as often as any other.
        let forms = unary.len() + 2 * binary.len() + FORMS.len();
        let turn = at % forms;
        let large = one(random, &LARGE);
        out.push(match turn {
            turn if turn < unary.len() => format!("{} {large}", unary[turn]),
            turn if turn < unary.len() + 2 * binary.len() => {
                let name = binary[(turn - unary.len()) / 2];
                let other = if random.bool() { one(random, &LARGE) } else { one(random, &SMALL) };
                let (x, y) = if random.bool() { (large, other) } else { (other, large) };
                if name.starts_with('.') && name.len() > 1 {
                    format!("{name}[{x};{y}]")
                } else {
                    format!("({x}){name} {y}")
                }
            }
            turn => FORMS[turn - unary.len() - 2 * binary.len()].replace('%', large),
        });
    }
    out
}

/// Evaluates, and writes the result for a client; returns the outcome and the time after the limit.
fn overrun(session: &mut Session, text: &str, limit: Duration) -> (String, Duration) {
    let deadline = thread_processor_time() + limit;
    let limits = Limits {
        deadline: Some(Instant::now()),
        processor_time: Some(deadline),
        memory_bytes: 512 << 20,
        ..Limits::default()
    };
    let result = eval_text(session, text.as_bytes(), &limits).and_then(|value| {
        limits.within(|| {
            let mut bytes = Vec::new();
            let mut writer = proto::Writer::new(&mut bytes);
            let put = to_wire(&value, &mut writer);
            writer.finish().ok();
            put
        })
    });
    let outcome = match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => String::from_utf8_lossy(&error.name).into_owned(),
    };
    (outcome, thread_processor_time().saturating_sub(deadline))
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (count, seed, limit) = (
        numbers.first().copied().unwrap_or(2_000) as usize,
        numbers.get(1).copied().unwrap_or(1),
        Duration::from_millis(numbers.get(2).copied().unwrap_or(100)),
    );
    let mut session = Session::new();
    for line in DEFINITIONS.lines() {
        let limits = Limits { memory_bytes: 8 << 30, ..Limits::default() };
        eval_text(&mut session, line.as_bytes(), &limits).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut seen = Vec::with_capacity(count);
    for text in expressions(count, &mut random) {
        let (outcome, over) = overrun(&mut session, &text, limit);
        seen.push((over, outcome, text));
    }
    seen.sort_by_key(|(over, ..)| std::cmp::Reverse(*over));
    let stopped = seen.iter().filter(|(_, outcome, _)| outcome == "stop").count();
    let over = |ms: u64| seen.iter().filter(|(over, ..)| *over > Duration::from_millis(ms)).count();
    println!("{count} expressions, seed {seed}, limit {} ms; {stopped} stopped", limit.as_millis());
    println!("overruns above 10 ms: {}, 50 ms: {}, 100 ms: {}, 500 ms: {}", over(10), over(50), over(100), over(500));
    println!("| expression | limit | overrun | outcome |\n|---|---|---|---|");
    for (over, outcome, text) in seen.iter().take(40) {
        println!("| `{text}` | {} ms | {:.1} ms | {outcome} |", limit.as_millis(), over.as_secs_f64() * 1e3);
    }
}

//! Loops, recursion and folds of the interpreter beside the same in CPython, in one run: only the ratios carry over.
//!
//!     cargo bench --bench loops
//!
//! Prints figures; asserts nothing. Without `python3` only elastick's own are printed.

use elastick::q::session::Session;
use elastick::q::{Limits, eval_text};
use std::process::Command;
use std::time::{Duration, Instant};

/// The best of so many runs counts: others use the machine too.
const RUNS: usize = 5;

/// What is measured: its name, q that is run before, q, Python that is run before, Python.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "while, a million rounds",
        "f:{i:0;s:0;while[i<1000000;s+:i;i+:1];s}",
        "f[]",
        "def f():\n i=0;s=0\n while i<1000000:\n  s+=i;i+=1\n return s",
        "f()",
    ),
    (
        "{x+y}/ over a million",
        "a:til 1000000",
        "{x+y}/[a]",
        "import functools;a=list(range(1000000))",
        "functools.reduce(lambda x,y:x+y,a)",
    ),
    (
        "fib 25",
        "fib:{$[x<2;x;.z.s[x-1]+.z.s[x-2]]}",
        "fib 25",
        "def fib(n): return n if n<2 else fib(n-1)+fib(n-2)",
        "fib(25)",
    ),
    (
        "fib 25 by its global name",
        "fib:{$[x<2;x;fib[x-1]+fib[x-2]]}",
        "fib 25",
        "def fib(n): return n if n<2 else fib(n-1)+fib(n-2)",
        "fib(25)",
    ),
    (
        "{y+0.5*x}/ over a million floats",
        "a:0.5+til 1000000",
        "{y+0.5*x}/[a]",
        "import functools;a=[0.5+i for i in range(1000000)]",
        "functools.reduce(lambda x,y:y+0.5*x,a)",
    ),
    (
        "lambda each of a million",
        "a:til 1000000",
        "{1+x*x}each a",
        "a=list(range(1000000));f=lambda x:1+x*x",
        "list(map(f,a))",
    ),
    (
        "while with floats",
        "f:{i:0;s:0.5;while[i<1000000;s:0.25+s*0.999;i+:1];s}",
        "f[]",
        "def f():\n i=0;s=0.5\n while i<1000000:\n  s=0.25+s*0.999;i+=1\n return s",
        "f()",
    ),
    (
        "Collatz lengths below 10,000",
        "f:{n:0;while[x>1;x:$[x mod 2;1+3*x;x div 2];n+:1];n}",
        "f each 1+til 9999",
        "def f(x):\n n=0\n while x>1:\n  x=1+3*x if x%2 else x//2\n  n+=1\n return n",
        "[f(x) for x in range(1,10000)]",
    ),
    (
        "items of a vector by index",
        "a:til 1000000;f:{[v]i:0;s:0;while[i<count v;s+:v i;i+:1];s}",
        "f a",
        "a=list(range(1000000))\ndef f(v):\n i=0;s=0\n while i<len(v):\n  s+=v[i];i+=1\n return s",
        "f(a)",
    ),
    (
        "amend in place, a million items",
        "f:{[n]v:n#0;i:0;while[i<n;v[i]:i*2;i+:1];v}",
        "f 1000000",
        "def f(n):\n v=[0]*n;i=0\n while i<n:\n  v[i]=i*2;i+=1\n return v",
        "f(1000000)",
    ),
    (
        "append to a list, 100,000 items",
        "f:{[n]l:();do[n;l,:1];l}",
        "f 100000",
        "def f(n):\n l=[]\n for _ in range(n): l.append(1)\n return l",
        "f(100000)",
    ),
    (
        "Ackermann 2 200",
        "ack:{$[x=0;y+1;y=0;.z.s[x-1;1];.z.s[x-1;.z.s[x;y-1]]]}",
        "ack[2;200]",
        "def ack(x,y):\n if x==0: return y+1\n if y==0: return ack(x-1,1)\n return ack(x-1,ack(x,y-1))",
        "ack(2,200)",
    ),
    (
        "greatest common divisors",
        "gcd:{$[y=0;x;.z.s[y;x mod y]]}",
        "gcd[;832040] each til 20000",
        "def gcd(x,y): return x if y==0 else gcd(y,x%y)",
        "[gcd(x,832040) for x in range(20000)]",
    ),
    (
        "two functions that call one another",
        "ev:{$[x=0;1b;od x-1]};od:{$[x=0;0b;ev x-1]}",
        "ev each 1000#300",
        "def ev(x): return True if x==0 else od(x-1)\ndef od(x): return False if x==0 else ev(x-1)",
        "[ev(300) for _ in range(1000)]",
    ),
    (
        "recursion with locals",
        "h:{[n]if[n<1;:0];a:n*2;b:a+1;(b mod 7)+h n-1}",
        "h each 1000#300",
        "def h(n):\n if n<1: return 0\n a=n*2;b=a+1\n return b%7+h(n-1)",
        "[h(300) for _ in range(1000)]",
    ),
    (
        "recursion through a projection",
        "p:{[k;n]$[n<1;k;1+p[k;n-1]]};p3:p[3]",
        "p3 each 1000#300",
        "import functools\ndef p(k,n): return k if n<1 else 1+p(k,n-1)\np3=functools.partial(p,3)",
        "[p3(300) for _ in range(1000)]",
    ),
    (
        "{(y+31*x)mod 1000007}/ over a million",
        "a:til 1000000",
        "{(y+31*x)mod 1000007}/[7;a]",
        "import functools;a=list(range(1000000))",
        "functools.reduce(lambda x,y:(y+31*x)%1000007,a,7)",
    ),
    (
        "{$[x>y;x;y]}/ over a million",
        "a:(til 1000000)mod 7919",
        "{$[x>y;x;y]}/[a]",
        "import functools;a=[i%7919 for i in range(1000000)]",
        "functools.reduce(lambda x,y:x if x>y else y,a)",
    ),
    (
        "running {y+x div 2} over a million",
        "a:til 1000000",
        "{y+x div 2}\\[a]",
        "import itertools;a=list(range(1000000))",
        "list(itertools.accumulate(a,lambda x,y:y+x//2))",
    ),
    (
        "as long as a condition holds",
        "c:{x<3000000}",
        "{x<3000000}{x+3}/0",
        "def g(c,f,x):\n while c(x): x=f(x)\n return x",
        "g(lambda x:x<3000000,lambda x:x+3,0)",
    ),
    (
        "append to a string, 100,000 characters",
        "f:{[n]s:\"\";i:0;while[i<n;s,:\"x\";i+:1];s}",
        "f 100000",
        "def f(n):\n s=''\n i=0\n while i<n:\n  s+='x';i+=1\n return s",
        "f(100000)",
    ),
];

fn elastick(before: &str, timed: &str) -> Duration {
    let mut session = Session::new();
    let limits = Limits::default();
    for line in before.split(";f:").enumerate().map(|(i, l)| if i == 0 { l.to_owned() } else { format!("f:{l}") }) {
        eval_text(&mut session, line.as_bytes(), &limits).expect("a definition");
    }
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let began = Instant::now();
        eval_text(&mut session, timed.as_bytes(), &limits).expect("a result");
        best = best.min(began.elapsed());
    }
    best
}

fn python(before: &str, timed: &str) -> Option<Duration> {
    let text = format!(
        "import time\n{before}\nbest=1e9\nfor _ in range({RUNS}):\n t=time.perf_counter();{timed};best=min(best,time.perf_counter()-t)\nprint(best)"
    );
    let output = Command::new("python3").args(["-c", &text]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok().map(Duration::from_secs_f64)
}

fn main() {
    println!("{:<42} {:>10} {:>10} {:>8}", "", "elastick", "CPython", "ratio");
    for (name, before, timed, python_before, python_timed) in CASES {
        let own = elastick(before, timed).as_secs_f64() * 1e3;
        match python(python_before, python_timed).map(|d| d.as_secs_f64() * 1e3) {
            Some(other) => println!("{name:<42} {own:>7.2} ms {other:>7.2} ms {:>8.1}", other / own),
            None => println!("{name:<42} {own:>7.2} ms"),
        }
    }
}

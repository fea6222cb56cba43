//! Queries over more rows than one section holds, on one and on several threads, compared with an equivalent query evaluated
//! group by group. Floats are multiples of 1/8, so that their sums are exact in any order.

use crate::process::session::Session;
use crate::{Limits, eval_text, one_line};

/// More threads than the tests of this process use at once, so that helpers are always free.
const THREADS: usize = 64;

/// Two sections of rows: ascending times, uneven distributions of symbols and exchanges, some nulls.
const TABLES: &str = "n:270000; i0:til n; r:{(x*y) mod z}; \
    t:([]time:0D09:30+1000000*(i0*39) div 10; sym:`d`a`c`b`zz`y[(r[i0;7;11]+r[i0;13;17]) mod 6]; \
    ex:\"NQAB\"r[i0;3;7] mod 4; price:?[0=i0 mod 97;0n;0.125*r[i0;31;1009]]; size:?[0=i0 mod 89;0N;r[i0;17;301]]; \
    qty:\"i\"$r[i0;5;77]; flag:0=r[i0;11;3]; far:1000000007*r[i0;19;50]); \
    q:([]time:0D09:29+500000*(til 2*n)*39 div 10; sym:`a`b`c`d`x[r[til 2*n;7;5]]; bid:0.125*r[til 2*n;3;901]); \
    e:0#t";

fn session(threads: usize) -> Session {
    let mut session = Session::new().with_threads(threads);
    eval_text(&mut session, TABLES.as_bytes(), &Limits::default()).expect("tables");
    session
}

fn evaluated(session: &mut Session, text: &str) -> String {
    match eval_text(session, text.as_bytes(), &Limits::default()) {
        Ok(value) => String::from_utf8_lossy(&one_line(&value)).into_owned(),
        Err(error) => format!("'{error}"),
    }
}

/// Pairs of equivalent queries.
const SAME: &[(&str, &str)] = &[
    ("select from t where price>100,size<50", "select from t where {x>100} price,{x<50} size"),
    ("select i,sym from t where sym<>`a,ex=\"N\"", "select i,sym from t where {x<>`a} sym,{x=\"N\"} ex"),
    ("select count i by sym from t where size>=price", "select count i by sym from t where {x>=y}[size;price]"),
    ("exec sum i from t where time>0D10,0N=size", "exec sum i from t where {x>0D10} time,{0N=x} size"),
    ("select from t where price<-1", "select from t where {x<-1} price"),
    (
        "select m:max price,l:min size by 0D00:05 xbar time from t",
        "select m:{max x} price,l:{min x} size by 0D00:05 xbar time from t",
    ),
    ("exec last price by sym from t", "exec {last x} price by sym from t"),
    ("select m:max price,{count x} i by sym from t", "select m:{max x} price,{count x} i by sym from t"),
    ("update m:max price by sym from t", "update m:{max x} price by sym from t"),
    ("select last price by sym from t", "select {last x} price by sym from t"),
    ("select f:first price,l:last ex by sym from t", "select f:{first x} price,l:{last x} ex by sym from t"),
    (
        "select v:size wavg price,w:size wsum price by sym from t",
        "select v:{x wavg y}[size;price],w:{x wsum y}[size;price] by sym from t",
    ),
    (
        "select s:sum price,m:max price,l:min price,c:count i,a:avg size by sym from t where sym in `a`zz",
        "select s:{sum x} price,m:{max x} price,l:{min x} price,c:{count x} i,a:{avg x} size by sym from t where sym in `a`zz",
    ),
    (
        "select r:(max price)-min price,n:1+count i by sym,0D00:05 xbar time from t",
        "select r:{(max x)-min x} price,n:{1+count x} i by sym,0D00:05 xbar time from t",
    ),
    ("select s:sum size by ex,sym from t", "select s:{sum x} size by ex,sym from t"),
    (
        "select s:sum qty,m:max qty,l:min flag,k:sum flag by flag,qty from t",
        "select s:{sum x} qty,m:{max x} qty,l:{min x} flag,k:{sum x} flag by flag,qty from t",
    ),
    ("select s:sum price*size by far from t", "select s:{sum x*y}[price;size] by far from t"),
    ("select s:sum price*size by price from t", "select s:{sum x*y}[price;size] by price from t"),
    (
        "select s:sum price-0.5*qty+size by neg qty,sym from t",
        "select s:{sum x-0.5*y+z}[price;qty;size] by neg qty,sym from t",
    ),
    ("select n:count i by 5 xbar qty from t", "select n:{count x} i by 5 xbar qty from t"),
    (
        "select n:count i by 0D00:07 xbar time from reverse t",
        "select n:{count x} i by 0D00:07 xbar time from reverse t",
    ),
    ("select n:sum i by far,price from t where i<3000", "select n:{sum x} i by far,price from t where i<3000"),
    ("exec sum size by sym from t", "exec {sum x} size by sym from t"),
    ("update m:sum size by sym from t", "update m:{sum x} size by sym from t"),
    (
        "update m:max size,p:sums size by sym from t where flag",
        "update m:{max x} size,p:{sums x} size by sym from t where flag",
    ),
    ("exec price wsum size from t", "exec {x wsum y}[price;size] from t"),
];

/// Queries whose result must not depend on the number of threads.
const ALONE: &[&str] = &[
    "aj[`sym`time;t;q]",
    "aj0[`sym`time;t;select sym,time,bid from q]",
    "aj[`sym`time;reverse t;q]",
    "aj[`sym`time;t;reverse q]",
    "aj[`sym`time;select from t where i<5;0#q]",
    "aj[`sym`time;e;q]",
    "select d:dev price,v:svar size,a:avg price by sym from t",
    "exec dev price from t",
    "select sum price,avg size by sym from e",
    "select from t where size>200,price<50",
];

#[test]
fn aggregates_are_those_of_each_group_alone() {
    let (mut one, mut many) = (session(0), session(THREADS));
    for (quick, slow) in SAME {
        for session in [&mut one, &mut many] {
            assert_eq!(evaluated(session, &format!("({quick})~{slow}")), "1b", "{quick}");
        }
    }
}

#[test]
fn the_last_rows_by_key_are_those_of_its_rows() {
    for threads in [0, THREADS] {
        let mut session = session(threads);
        let rows = "(0!select by sym from t)~`sym xcols `sym xasc t raze value exec last i by sym from t";
        assert_eq!(evaluated(&mut session, rows), "1b");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let (mut one, mut many) = (session(0), session(THREADS));
    for query in ALONE {
        let digest = format!("md5 \"c\"$-8!{query}");
        assert_eq!(evaluated(&mut one, &digest), evaluated(&mut many, &digest), "{query}");
    }
}

#[test]
fn rows_as_of_a_time_are_those_that_a_search_finds() {
    for threads in [0, THREADS] {
        let mut session = session(threads);
        let slow = "{r:where q[`sym]=x`sym; q[`bid] r (q[`time] r) bin x`time}";
        let some = "some:where 0=(til n) mod 4999";
        evaluated(&mut session, some);
        assert_eq!(evaluated(&mut session, &format!("(aj[`sym`time;t;q][`bid] some)~{slow} each t some")), "1b");
        // Unsorted left table: a search by key.
        let back = format!("(aj[`sym`time;reverse t;q][`bid] n-1+some)~{slow} each t some");
        assert_eq!(evaluated(&mut session, &back), "1b");
    }
}

#[test]
fn windows_hold_what_lies_in_them() {
    for threads in [0, THREADS] {
        let mut session = session(threads);
        evaluated(
            &mut session,
            "u:select from t where i<40000,0=i mod 397; w:(u[`time]-0D00:00:01;u[`time]+0D00:00:02)",
        );
        // Rows after the last window belong to no window.
        evaluated(&mut session, "p:select from q where time<=max w 1");
        evaluated(&mut session, "slow:{[s;b;e] exec bid from p where sym=s,time within (b;e)}'[u`sym;w 0;w 1]");
        for f in ["sum", "max", "avg", "{count x}", "first"] {
            let joined = format!("wj1[w;`sym`time;u;(q;({f};`bid))]`bid");
            assert_eq!(evaluated(&mut session, &format!("({joined})~{f} each slow")), "1b", "{f}");
        }
    }
}

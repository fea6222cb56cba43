//! An oracle for roles: users who try everything, by expressions and by messages, on a tickerplant and a node. Nothing outside a
//! user's role may change, no response or message may hold what the role hides, and no process may end.
//!
//! What a role may change is left out of its comparison ([`cluster::Case::own`]); everything else is compared after every few inputs.
//! A failure prints the seed and these inputs.
//!
//! - `ELASTICK_ORACLE_EXPRESSIONS`, `ELASTICK_ORACLE_MESSAGES`: their numbers for each role.
//! - `ELASTICK_FUZZ_SEED`: the seed.

mod attacker;
mod cluster;
mod expressions;
#[allow(dead_code, reason = "the fuzz tests use all of it")]
#[path = "../../fuzz/grammar.rs"]
mod grammar;
mod messages;
#[allow(dead_code, reason = "the fuzz tests use all of it")]
#[path = "../../fuzz/mutate.rs"]
mod mutate;

use attacker::{Attacker, Target};
use cluster::{Case, Cluster};
use expressions::Expressions;

/// Inputs between two comparisons of the state.
const AT_ONCE: usize = 32;

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// What was tried, for the report of a long run.
#[derive(Debug, Default)]
struct Tally {
    inputs: usize,
    answered: usize,
    refused: usize,
    closed: usize,
}

/// Tries `count` inputs and compares the state after every few of them.
fn run(
    case: &Case,
    cluster: &mut Cluster,
    seed: u64,
    count: usize,
    mut next: impl FnMut(&mut Attacker) -> String,
) -> Tally {
    let mut attacker = Attacker::new(case, cluster);
    let (mut before, mut recent) = (cluster.state(case), Vec::new());
    let mut tally = Tally::default();
    for done in 1..=count {
        let tried = next(&mut attacker);
        recent.push(tried);
        if done % AT_ONCE != 0 && done != count {
            continue;
        }
        attacker.read_messages();
        let inputs = recent.join("\n  ");
        let context =
            || format!("role {}, seed {seed}, after {done} inputs, the last of which are\n  {inputs}", case.user);
        assert!(attacker.leaks.is_empty(), "{}\n{}", attacker.leaks.join("\n"), context());
        let after = cluster.state(case);
        let changed = cluster::difference(&before, &after);
        assert!(changed.is_empty(), "outside the role:\n{}\n{}", changed.join("\n"), context());
        recent.clear();
        if done % (8 * AT_ONCE) == 0 {
            cluster.publish_hidden_rows();
        }
        before = cluster.state(case);
    }
    tally.inputs = count;
    (tally.answered, tally.refused, tally.closed) = (attacker.answered, attacker.refused, attacker.closed);
    tally
}

fn attack(user: &str) {
    let seed = number("ELASTICK_FUZZ_SEED", 20_261_124) as u64;
    let case = Case::of(user);
    let mut cluster = Cluster::start(user);
    let (expressions, mut random) = (Expressions::read(), fastrand::Rng::with_seed(seed));
    let count = number("ELASTICK_ORACLE_EXPRESSIONS", 800);
    let tally = run(&case, &mut cluster, seed, count, |attacker| {
        let text = expressions.next(&mut random);
        let target = if random.bool() { Target::Tick } else { Target::Node };
        attacker.expression(target, &text);
        format!("{target:?} {text:?}")
    });
    println!("{user}: {count} expressions: {tally:?}");
    let count = number("ELASTICK_ORACLE_MESSAGES", 400);
    let tally = run(&case, &mut cluster, seed, count, |attacker| {
        let target = if random.u8(0..4) > 0 { Target::Tick } else { Target::Node };
        let message = messages::next(&mut random);
        attacker.message(target, &message);
        format!("{target:?} {message:?}")
    });
    println!("{user}: {count} messages: {tally:?}");
}

macro_rules! roles {
    ($($name:ident $user:literal)*) => { $(
        #[test]
        fn $name() {
            attack($user);
        }
    )* };
}
roles! {
    a_publisher_of_one_table "feed"
    a_subscriber_of_some_symbols "desk"
    a_reader_of_some_rows "rows"
    a_reader_of_one_table "one"
    a_node_of_another_queue "spare"
    an_operator "ops"
    a_user_without_a_role "none"
}

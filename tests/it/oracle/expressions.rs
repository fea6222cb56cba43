//! Expressions of a user who tries everything: templates filled at random, the fuzzer's grammar, and mixtures of both.

use crate::oracle::grammar::Grammar;
use crate::oracle::mutate;
use fastrand::Rng;

const TABLES: [&str; 8] = ["trade", "note", "idle", "hist", "keyed", "theirs", "`trade", ".ref.rows"];
/// Globals of the owner's start-up file and of another user.
const KEPT: [&str; 10] = ["hist", "keyed", "run", "agg", "latest", ".ref.f", ".ref.rows", "trade", "owned", "upd"];
const OWN: [&str; 4] = ["a1", "a2", "a3", "a4"];
const COLUMNS: [&str; 6] = ["sym", "id", "time", "text", "n", "i"];
const VALUES: [&str; 12] = ["0", "1", "-1", "()", "`A", "`", "\"a\"", "1 2 3", "2f", "0N", "::", "`A`B!1 2"];

pub struct Expressions {
    templates: Vec<&'static str>,
    grammar: Grammar,
}

impl Expressions {
    pub fn read() -> Expressions {
        let lines = include_str!("expressions.txt").lines();
        let templates = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '@'])).collect();
        Expressions { templates, grammar: Grammar::read() }
    }

    pub fn next(&self, random: &mut Rng) -> String {
        match random.u8(0..10) {
            0 => {
                let depth = random.usize(1..5);
                self.grammar.line(random, depth)
            }
            1 | 2 => {
                let (text, other) = (self.filled(random, 3), self.filled(random, 2));
                mutate::mutant(&mutate::tokens(&text), &mutate::tokens(&other), random)
            }
            _ => {
                let depth = random.u8(1..4);
                self.filled(random, depth)
            }
        }
    }

    fn filled(&self, random: &mut Rng, depth: u8) -> String {
        fn one<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
            of[random.usize(0..of.len())]
        }
        let template = one(random, &self.templates);
        let mut pieces = template.split('%');
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let inner = match piece.chars().next() {
                Some('e') if depth > 0 => self.filled(random, depth - 1).replace('"', "\\\""),
                Some('e' | 't') => one(random, &TABLES).to_owned(),
                Some('k') => one(random, &KEPT).to_owned(),
                Some('n') => one(random, &OWN).to_owned(),
                Some('c') => one(random, &COLUMNS).to_owned(),
                Some('v') => one(random, &VALUES).to_owned(),
                // A percent sign that divides.
                _ => {
                    out.push('%');
                    out.push_str(piece);
                    continue;
                }
            };
            // Quotes are escaped only where the expression stands in a text.
            let is_text = out.matches('"').count() % 2 == 1;
            out.push_str(&if is_text { inner } else { inner.replace("\\\"", "\"") });
            out.push_str(&piece[1..]);
        }
        out
    }
}

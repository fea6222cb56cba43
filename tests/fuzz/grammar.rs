//! Generates random text from the rules in `grammar.txt`.

use std::collections::HashMap;

enum Part {
    Text(&'static str),
    Rule(usize),
    /// Any number of repetitions of the rule.
    Chain(usize),
    /// The second rule inside any number of the first, whose alternatives mark the place of the inner text by `…`.
    Nest(usize, usize),
}

/// Maximum number of repetitions: above the nesting limit of values (512), and about that of text (1,000).
const MAX: f64 = 1100.0;

/// An alternative of a rule, and its minimum depth in rules.
struct Alternative {
    parts: Vec<Part>,
    depth: usize,
}

pub struct Grammar {
    rules: Vec<Vec<Alternative>>,
    start: usize,
    deep: usize,
}

/// Length above which a text takes the shallowest alternatives only.
const LONGEST: usize = 2000;

impl Grammar {
    pub fn read() -> Grammar {
        let lines = include_str!("grammar.txt").lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let mut written: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in lines {
            match line.strip_prefix("  ") {
                Some(alternative) => written.last_mut().expect("a rule's name comes first").1.push(alternative),
                None => written.push((line.trim(), Vec::new())),
            }
        }
        let numbers: HashMap<&str, usize> = written.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
        assert_eq!(numbers.len(), written.len(), "a rule stands once");
        let parts = |text: &'static str| {
            let mut out = Vec::new();
            for (i, piece) in text.split("<<").enumerate() {
                let rest = if i == 0 {
                    piece
                } else {
                    let (name, rest) = piece.split_once(">>").expect("<< has its >>");
                    let rule = |name: &str| *numbers.get(name).unwrap_or_else(|| panic!("no rule {name}"));
                    let words: Vec<&str> = name.split(' ').collect();
                    out.push(match words[..] {
                        ["chain", of] => Part::Chain(rule(of)),
                        ["nest", around, inner] => Part::Nest(rule(around), rule(inner)),
                        _ => Part::Rule(rule(name)),
                    });
                    rest
                };
                out.push(Part::Text(rest));
            }
            out
        };
        let read = |texts: &[&'static str]| -> Vec<Alternative> {
            texts.iter().map(|t| Alternative { parts: parts(t), depth: usize::MAX }).collect()
        };
        let mut rules: Vec<Vec<Alternative>> = written.iter().map(|(_, texts)| read(texts)).collect();
        while settle(&mut rules) {}
        Grammar { start: numbers["line"], deep: numbers["deep"], rules }
    }

    /// Returns a line whose rules nest at most `depth` deep, if they can.
    pub fn line(&self, random: &mut fastrand::Rng, depth: usize) -> String {
        let mut out = String::new();
        self.write(self.start, depth, random, &mut out);
        out
    }

    /// Returns a line of deeply nested values and syntax, chains, and long argument lists.
    pub fn nested_line(&self, random: &mut fastrand::Rng) -> String {
        let mut out = String::new();
        let depth = random.usize(1..4);
        self.write(self.deep, depth, random, &mut out);
        out
    }

    fn write(&self, rule: usize, depth: usize, random: &mut fastrand::Rng, out: &mut String) {
        let depth = if out.len() > LONGEST { 0 } else { depth };
        let alternatives = &self.rules[rule];
        let least = alternatives.iter().map(|a| a.depth).min().expect("a rule has alternatives");
        let fits = |a: &&Alternative| a.depth <= depth.max(least);
        let usable: Vec<&Alternative> = alternatives.iter().filter(fits).collect();
        for part in &usable[random.usize(0..usable.len())].parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Rule(inner) => self.write(*inner, depth.saturating_sub(1), random, out),
                Part::Chain(link) => (0..many(random)).for_each(|_| self.write(*link, 0, random, out)),
                Part::Nest(around, inner) => self.nest(*around, *inner, depth, random, out),
            }
        }
    }

    /// Nests many times: one alternative throughout, or a random one at each level.
    fn nest(&self, around: usize, inner: usize, depth: usize, random: &mut fastrand::Rng, out: &mut String) {
        let halves = |random: &mut fastrand::Rng| {
            let mut text = String::new();
            self.write(around, 0, random, &mut text);
            let (left, right) = text.split_once('…').expect("an alternative has its …");
            (left.to_owned(), right.to_owned())
        };
        let (one, is_mixed, mut closing) = (halves(random), random.bool(), Vec::new());
        for _ in 0..many(random) {
            let (left, right) = if is_mixed { halves(random) } else { one.clone() };
            out.push_str(&left);
            closing.push(right);
        }
        self.write(inner, depth.saturating_sub(1), random, out);
        closing.iter().rev().for_each(|right| out.push_str(right));
    }
}

/// Returns a number of repetitions, log-uniform: a few as often as some hundreds.
fn many(random: &mut fastrand::Rng) -> usize {
    MAX.powf(random.f64()) as usize
}

/// Updates the depths of alternatives from the rules in them. Returns whether any changed.
fn settle(rules: &mut [Vec<Alternative>]) -> bool {
    let least: Vec<usize> =
        rules.iter().map(|r| r.iter().map(|a| a.depth).min().expect("a rule has alternatives")).collect();
    let mut changed = false;
    for alternative in rules.iter_mut().flatten() {
        let inner = alternative.parts.iter().map(|p| match p {
            Part::Text(_) => 0,
            Part::Rule(rule) | Part::Chain(rule) | Part::Nest(_, rule) => least[*rule].saturating_add(1),
        });
        let depth = inner.max().unwrap_or(0);
        changed |= depth != alternative.depth;
        alternative.depth = depth;
    }
    changed
}

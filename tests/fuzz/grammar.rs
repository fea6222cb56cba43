//! Text at random from the rules in `grammar.txt`.

use std::collections::HashMap;

enum Part {
    Text(&'static str),
    Rule(usize),
}

/// An alternative of a rule, and how many rules deep it goes at least.
struct Alternative {
    parts: Vec<Part>,
    depth: usize,
}

pub struct Grammar {
    rules: Vec<Vec<Alternative>>,
    start: usize,
}

/// Texts beyond this are closed as soon as the rules allow.
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
                    out.push(Part::Rule(*numbers.get(name).unwrap_or_else(|| panic!("no rule {name}"))));
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
        Grammar { start: numbers["line"], rules }
    }

    /// A line whose rules nest at most `depth` deep, where they can.
    pub fn line(&self, random: &mut fastrand::Rng, depth: usize) -> String {
        let mut out = String::new();
        self.write(self.start, depth, random, &mut out);
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
            }
        }
    }
}

/// Works the depths of alternatives out from those of the rules in them; whether any changed.
fn settle(rules: &mut [Vec<Alternative>]) -> bool {
    let least: Vec<usize> =
        rules.iter().map(|r| r.iter().map(|a| a.depth).min().expect("a rule has alternatives")).collect();
    let mut changed = false;
    for alternative in rules.iter_mut().flatten() {
        let inner = alternative.parts.iter().map(|p| match p {
            Part::Text(_) => 0,
            Part::Rule(rule) => least[*rule].saturating_add(1),
        });
        let depth = inner.max().unwrap_or(0);
        changed |= depth != alternative.depth;
        alternative.depth = depth;
    }
    changed
}

//! Tables that grow in place, against a model of their rows: whatever else refers to a table keeps its rows, attributes stay while they
//! hold, and a rejected change leaves everything as it was.

use elastick_q::session::Session;
use elastick_q::{Limits, eval_text, one_line};
use proptest::prelude::*;

/// Rows of a key and a value.
type Pairs<'a> = &'a [(i64, i64)];

/// How rows are added.
#[derive(Clone, Copy, Debug)]
enum Form {
    Insert,
    Upsert,
    Join,
    Amend,
    /// As one record, which only the last row of a batch is.
    Record,
    /// In a function, to a table that the function holds.
    Local,
}

#[derive(Clone, Debug)]
enum Step {
    Rows(Form, Vec<(i64, i64)>),
    /// Another name for the table.
    Alias,
    /// A change of another kind: items behind an index, in place.
    Change(i64),
    /// Row by row from a list of messages.
    Each(Vec<(i64, i64)>),
}

fn rows() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0i64..60, 0i64..1000), 1..14)
}

fn step() -> impl Strategy<Value = Step> {
    let form = prop_oneof![
        Just(Form::Insert),
        Just(Form::Upsert),
        Just(Form::Join),
        Just(Form::Amend),
        Just(Form::Record),
        Just(Form::Local)
    ];
    prop_oneof![
        6 => (form, rows()).prop_map(|(form, rows)| Step::Rows(form, rows)),
        2 => Just(Step::Alias),
        1 => (0i64..60).prop_map(Step::Change),
        1 => rows().prop_map(Step::Each),
    ]
}

/// Kinds of tables: with an attribute on the first column, with keys, with an enumerated column.
const KINDS: [(&str, &str); 8] = [
    ("", "([]k:K;v:V)"),
    ("u", "([]k:`u#K;v:V)"),
    ("g", "([]k:`g#K;v:V)"),
    ("s", "([]k:`s#K;v:V)"),
    ("key", "([k:K]v:V)"),
    ("ukey", "([k:`u#K]v:V)"),
    ("keys", "([k:K;j:K mod 7]v:V)"),
    ("keys behind", "([j:K mod 7;k:K]v:V)"),
];

struct Model {
    kind: &'static str,
    rows: Vec<(i64, i64)>,
    is_sorted: bool,
    is_unique: bool,
}

impl Model {
    fn is_keyed(&self) -> bool {
        self.kind.contains("key")
    }

    /// Adds rows; returns the error.
    fn add(&mut self, new: &[(i64, i64)], replace: bool) -> Option<&'static str> {
        if self.is_keyed() {
            if !replace && new.iter().any(|(k, _)| self.rows.iter().any(|(own, _)| own == k)) {
                return Some("insert");
            }
            for (k, v) in new {
                match self.rows.iter_mut().find(|(own, _)| own == k) {
                    Some(row) => row.1 = *v,
                    None => self.rows.push((*k, *v)),
                }
            }
            return None;
        }
        self.rows.extend(new);
        if self.kind == "u" {
            let mut keys: Vec<i64> = self.rows.iter().map(|(k, _)| *k).collect();
            keys.sort_unstable();
            keys.dedup();
            self.is_unique &= keys.len() == self.rows.len();
        }
        self.is_sorted &= self.rows.is_sorted_by_key(|(k, _)| *k);
        None
    }

    fn shown(&self) -> String {
        let list = |items: Vec<i64>| match &items[..] {
            [] => "`long$()".to_owned(),
            [one] => format!(",{one}"),
            all => all.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
        };
        let (keys, values) = self.rows.iter().copied().unzip();
        format!("({};{})", list(keys), list(values))
    }

    fn attribute(&self) -> &'static str {
        match self.kind {
            "u" if !self.is_unique => "`",
            "u" | "ukey" => "`u",
            "g" => "`g",
            "s" if self.is_sorted => "`s",
            _ => "`",
        }
    }
}

fn asked(session: &mut Session, text: &str) -> Result<String, String> {
    let value = eval_text(session, text.as_bytes(), &Limits::default());
    value
        .map(|value| String::from_utf8_lossy(&one_line(&value)).into_owned())
        .map_err(|error| String::from_utf8_lossy(&error.name).into_owned())
}

fn told(session: &mut Session, text: &str) -> String {
    asked(session, text).unwrap_or_else(|error| panic!("{text}: '{error}"))
}

fn list(items: impl Iterator<Item = i64>) -> String {
    let items: Vec<String> = items.map(|i| i.to_string()).collect();
    format!("({}0#0)", items.iter().map(|i| format!("{i},")).collect::<String>())
}

/// Rows as q's list of columns.
fn columns(kind: &str, rows: &[(i64, i64)]) -> String {
    let (k, v) = (list(rows.iter().map(|r| r.0)), list(rows.iter().map(|r| r.1)));
    match kind {
        "keys" => format!("({k};{k} mod 7;{v})"),
        "keys behind" => format!("({k} mod 7;{k};{v})"),
        _ => format!("({k};{v})"),
    }
}

fn text_of(kind: &str, form: Form, rows: &[(i64, i64)]) -> String {
    let columns = columns(kind, rows);
    let table = format!("flip cols[t]!{columns}");
    match form {
        Form::Insert => format!("`t insert {columns}"),
        Form::Upsert => format!("`t upsert {table}"),
        Form::Join => format!("t,:{table}"),
        Form::Amend => format!(".[`t;();,;{table}]"),
        Form::Record => format!("t,:last {table}"),
        Form::Local => format!("t:{{[x;y]x,:y;x}}[t;{table}]"),
    }
}

fn check(kind: &'static str, start: &str, count: i64, steps: &[Step]) {
    let mut session = Session::new();
    let start = start.replace('K', &format!("(100+til {count})")).replace('V', &format!("(neg til {count})"));
    told(&mut session, &format!("t:{start}"));
    let rows = (0..count).map(|i| (100 + i, -i)).collect();
    let mut model = Model { kind, rows, is_sorted: true, is_unique: true };
    let mut aliases = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let (texts, new, replace): (Vec<String>, Vec<Pairs<'_>>, bool) = match step {
            Step::Alias => {
                let keeps =
                    ["a{}:t", "a{}:flip 0!t", "a{}:(1;(t;2))", "a{}:{count x;x}t"][i % 4].replace("{}", &i.to_string());
                told(&mut session, &keeps);
                aliases.push((i, told(&mut session, &format!("-3!a{i}"))));
                continue;
            }
            Step::Change(v) => {
                told(&mut session, &format!("t:update v:{v} from t where i=0"));
                if let Some(first) = model.rows.first_mut() {
                    first.1 = *v;
                }
                continue;
            }
            Step::Rows(Form::Record, rows) => {
                (vec![text_of(kind, Form::Record, rows)], vec![&rows[rows.len() - 1..]], true)
            }
            Step::Rows(form, rows) => {
                (vec![text_of(kind, *form, rows)], vec![&rows[..]], !matches!(form, Form::Insert))
            }
            Step::Each(rows) => {
                let each = rows.chunks(1).map(|row| text_of(kind, Form::Upsert, row)).collect();
                (each, rows.chunks(1).collect(), true)
            }
        };
        for (text, new) in texts.iter().zip(new) {
            let expected = model.add(new, replace);
            assert_eq!(asked(&mut session, text).err().as_deref(), expected, "{text}");
            assert_eq!(told(&mut session, "(`#exec k from t;`#exec v from t)"), model.shown(), "{kind} after {text}");
            if matches!(step, Step::Rows(..)) {
                assert_eq!(told(&mut session, "attr (0!t)`k"), model.attribute(), "{kind} after {text}");
            }
        }
    }
    for (alias, before) in aliases {
        assert_eq!(told(&mut session, &format!("-3!a{alias}")), before, "{kind}: what a{alias} refers to has changed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_added_and_other_references_keep_theirs(steps in prop::collection::vec(step(), 1..24)) {
        for (kind, start) in KINDS {
            // A long key column keeps an index.
            for count in [0, 3, 300] {
                check(kind, start, count, &steps);
            }
        }
    }
}

#[test]
fn a_rejected_batch_leaves_columns_of_equal_length() {
    let mut session = Session::new();
    told(&mut session, "sym:`a`b;t:([]k:1 2;s:`sym$`a`b;n:(1 2;\"x\"))");
    for (rows, error) in [
        ("(3;`c;4)", "cast"),
        ("(3 4;`a`b`a;5)", "length"),
        ("(3;1.5;4)", "type"),
        ("([]k:3 4;s:`a`z;n:1 2)", "cast"),
        ("([]k:3 4;s:`a`b;m:5 6)", "mismatch"),
    ] {
        let before = told(&mut session, "-3!t");
        assert_eq!(asked(&mut session, &format!("`t insert {rows}")).err().as_deref(), Some(error), "{rows}");
        assert_eq!(told(&mut session, "-3!t"), before, "{rows}");
    }
    told(&mut session, "`t insert (3;`a;4)");
    told(&mut session, "t,:(4;`b;`z)");
    assert_eq!(told(&mut session, "(count each flip t;t`n)"), "(`k`s`n!4 4 4;(1 2;\"x\";4;`z))");
}

//! qSQL templates.

use crate::runtime::error::QError;
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::lex::Token;
use crate::syntax::parse::{Parser, Stops};

/// Forms of the syntax that are no functions: name, how it is written, what it does.
pub(crate) const FORMS: [(&str, &str, &str); 8] = [
    ("select", "select columns by groups from t where conditions", "rows, columns and aggregates of a table"),
    ("exec", "exec columns by groups from t where conditions", "as select, as lists or a dictionary"),
    (
        "update",
        "update columns by groups from t where conditions",
        "a table with changed or new columns; `t changes it",
    ),
    ("delete", "delete columns from t, delete from t where conditions", "a table without columns or rows"),
    ("if", "if[test;statements]", "runs the statements if the test holds"),
    ("while", "while[test;statements]", "runs the statements as long as the test holds"),
    ("do", "do[n;statements]", "runs the statements n times"),
    ("{", "{[x;y]statements}", "a function; without parameters listed they are x, y and z; :value returns"),
];

/// The template that a keyword starts.
pub(crate) fn verb(name: &[u8]) -> Option<Verb> {
    Some(match name {
        b"select" => Verb::Select,
        b"exec" => Verb::Exec,
        b"update" => Verb::Update,
        b"delete" => Verb::Delete,
        _ => return None,
    })
}

type Fields = [(Option<columns::table::Sym>, Node)];

/// A field whose name is inside its brackets, as in `select (b:a,'1) from t`: brackets keep commas from ending the field and nothing else.
fn unbracketed((name, node): (Option<columns::table::Sym>, Node)) -> (Option<columns::table::Sym>, Node) {
    match (name, node) {
        (None, Node { kind: Kind::Assign(assign), .. }) if assign.plain_name().is_some() => {
            (assign.plain_name(), assign.value)
        }
        field => field,
    }
}

/// A name used both for a column and for a group.
fn repeated(columns: &Fields, by: &Fields) -> Option<columns::table::Sym> {
    let name =
        |(name, node): &(Option<columns::table::Sym>, Node)| name.or_else(|| crate::syntax::resolve::column_name(node));
    let groups: Vec<_> = by.iter().filter_map(name).collect();
    columns.iter().filter_map(name).find(|n| groups.contains(n))
}

impl Parser<'_> {
    /// Parses a template after its keyword.
    pub(crate) fn query(&mut self, verb: Verb) -> Result<Node, QError> {
        let at = self.position();
        let outer = self.stops;
        self.advance();
        let (mut limit, mut order) = (None, None);
        if matches!(self.peek(), Token::Open(b'[')) {
            self.advance();
            (limit, order) = self.bracketed(Self::limits)?;
        }
        // In `exec`, `distinct` is a function in the first column.
        let distinct = verb == Verb::Select && self.is_word(b"distinct");
        if distinct {
            self.advance();
        }
        self.stops = Stops { comma: true, from: true, filters: false };
        let columns = if self.is_word(b"from") || self.is_word(b"by") { Vec::new() } else { self.named_phrase()? };
        let by = if self.is_word(b"by") {
            self.advance();
            Some(self.named_phrase()?)
        } else {
            None
        };
        if !self.is_word(b"from") {
            let unclosed = matches!(self.peek(), Token::End) && self.left_open().is_some();
            let at = u32::try_from(self.position()).unwrap_or(u32::MAX);
            return Err(if unclosed { self.unexpected() } else { QError::named("from").place(at) });
        }
        self.advance();
        self.stops = Stops { comma: outer.comma, from: outer.from, filters: true };
        let from = self.expression()?;
        let mut filters = Vec::new();
        if self.is_word(b"where") {
            self.advance();
            self.stops = Stops { comma: true, from: outer.from, filters: outer.filters };
            filters = self.phrase()?.into_iter().map(|(_, node)| node).collect();
        }
        self.stops = outer;
        if verb == Verb::Select
            && let Some(by) = &by
            && let Some(name) = repeated(&columns, by)
        {
            let name = String::from_utf8_lossy(columns::table::symbol::text(name)).into_owned();
            return Err(QError::signal(format!("dup names for cols/groups {name}").into_bytes())
                .place(u32::try_from(at).unwrap_or(u32::MAX)));
        }
        let query = Query { verb, distinct, limit, order, columns, by, from, filters };
        Ok(Node::new(at, Kind::Query(Box::new(query))))
    }

    /// Columns or groups, whose names count.
    fn named_phrase(&mut self) -> Result<Vec<(Option<columns::table::Sym>, Node)>, QError> {
        Ok(self.phrase()?.into_iter().map(unbracketed).collect())
    }

    /// Expressions separated by commas.
    fn phrase(&mut self) -> Result<Vec<(Option<columns::table::Sym>, Node)>, QError> {
        let mut out = vec![self.field()?];
        while self.is_glyph(",") {
            self.advance();
            out.push(self.field()?);
        }
        Ok(out)
    }

    /// `n]`, `n;>col]`, `>col]`, `<a*b]` after the opening bracket.
    #[allow(clippy::type_complexity)]
    fn limits(&mut self) -> Result<(Option<Node>, Option<(bool, Node)>), QError> {
        let (mut limit, mut order) = (None, None);
        loop {
            match self.peek() {
                Token::Glyph(glyph @ ("<" | ">")) => {
                    let descending = *glyph == ">";
                    self.advance();
                    order = Some((descending, self.expression()?));
                }
                _ => limit = Some(self.expression()?),
            }
            match self.peek() {
                Token::Semicolon => self.advance(),
                Token::Close(b']') => {
                    self.advance();
                    return Ok((limit, order));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }
}

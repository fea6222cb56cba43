//! Meaning of a table's columns to the simulated market, by name and type.

use proto::{Value, types};

/// A table that the feed can generate, with the meaning of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub table: String,
    pub columns: Vec<Column>,
}

/// A column with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// Type code of the vector.
    pub ty: i8,
    pub role: Role,
}

/// Meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Time,
    Sym,
    Price,
    Size,
    Bid,
    Ask,
    BidSize,
    AskSize,
    /// Letter of an exchange.
    Exchange,
    /// Condition of a trade or quote, a letter.
    Condition,
    /// Aggressor side of a trade: `B` or `S`.
    Side,
    /// Unknown to the market: any value of its type.
    Other,
}

impl Role {
    fn of(name: &str) -> Role {
        match name.to_ascii_lowercase().as_str() {
            "time" => Role::Time,
            "sym" => Role::Sym,
            "price" | "px" => Role::Price,
            "size" | "qty" | "volume" => Role::Size,
            "bid" => Role::Bid,
            "ask" => Role::Ask,
            "bsize" | "bidsize" => Role::BidSize,
            "asize" | "asksize" => Role::AskSize,
            "ex" | "src" => Role::Exchange,
            "cond" | "mode" => Role::Condition,
            "side" => Role::Side,
            _ => Role::Other,
        }
    }
}

impl Shape {
    /// Derives the shape from an empty table of the tickerplant.
    ///
    /// # Errors
    /// Why the feed cannot generate the table, described.
    pub fn of(table: &str, empty: &Value) -> Result<Shape, String> {
        let Value::Table { names, columns, .. } = empty else {
            return Err(format!("{table} is not a table"));
        };
        let columns: Vec<Column> = names
            .iter()
            .zip(columns)
            .map(|(name, column)| {
                let name = String::from_utf8_lossy(name).into_owned();
                Column { role: Role::of(&name), ty: column.type_code(), name }
            })
            .collect();
        let first_two: Vec<Role> = columns.iter().take(2).map(|column| column.role).collect();
        if first_two != [Role::Time, Role::Sym] {
            return Err(format!("{table}: the first two columns must be time and sym"));
        }
        for column in &columns {
            let fits = match column.role {
                Role::Time => is_time(column.ty),
                Role::Sym => column.ty == types::SYMBOL,
                _ => (types::LIST..=types::TIME).contains(&column.ty),
            };
            if !fits {
                return Err(format!("{table}.{}: cannot generate values of type {}", column.name, column.ty));
            }
        }
        Ok(Shape { table: table.to_string(), columns })
    }

    /// Whether the table holds quotes, of which a market has several for each trade.
    pub fn is_quotes(&self) -> bool {
        self.columns.iter().any(|column| column.role == Role::Bid)
    }
}

fn is_time(ty: i8) -> bool {
    matches!(ty, types::TIMESPAN | types::TIMESTAMP | types::TIME | types::DATETIME | types::SECOND | types::MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Items;

    fn table(columns: Vec<(&str, Items)>) -> Value {
        let (names, columns) =
            columns.into_iter().map(|(n, items)| (n.as_bytes().to_vec(), Value::Vector { attr: 0, items })).unzip();
        Value::Table { attr: 0, names, columns }
    }

    #[test]
    fn roles_come_from_names() {
        let empty = table(vec![
            ("time", Items::Timespan(vec![])),
            ("sym", Items::Symbol(vec![])),
            ("bid", Items::Float(vec![])),
            ("venue", Items::Guid(vec![])),
        ]);
        let shape = Shape::of("quote", &empty).unwrap();
        let roles: Vec<Role> = shape.columns.iter().map(|column| column.role).collect();
        assert_eq!(roles, [Role::Time, Role::Sym, Role::Bid, Role::Other]);
        assert!(shape.is_quotes());
    }

    #[test]
    fn a_table_without_time_and_sym_is_rejected() {
        let empty = table(vec![("sym", Items::Symbol(vec![])), ("time", Items::Timespan(vec![]))]);
        assert!(Shape::of("odd", &empty).unwrap_err().contains("time and sym"));
        assert!(Shape::of("odd", &Value::Long(1)).is_err());
    }
}

//! Updates of a simulated market, deterministic for a seed.

use super::shape::{Column, Role, Shape};
use super::universe::{Universe, cents};
use fastrand::Rng;
use proto::time::DAY_NS;
use proto::{EncodeError, Writer, types};

/// Letters of exchanges and conditions, as in the US consolidated tapes.
const EXCHANGES: &[u8] = b"NQPZBKY";
const CONDITIONS: &[u8] = b"      FTIO";

/// Options of the market.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarketOptions {
    pub seed: u64,
    pub symbols: usize,
    /// Exponent of Zipf's law.
    pub skew: f64,
    /// Mean number of rows in an update; the number ranges from 1 to twice the mean less one.
    pub rows: usize,
    /// Quote updates for each trade update.
    pub quotes_per_trade: u32,
    /// Date of the day, in days since 2000.01.01.
    pub date: i32,
}

/// A row before it is split into columns.
#[derive(Clone, Debug)]
struct Row {
    time_ns: i64,
    symbol: usize,
    price: f64,
    size: f64,
    bid: f64,
    ask: f64,
    bid_size: f64,
    ask_size: f64,
    exchange: u8,
    condition: u8,
    noise: u64,
}

/// Generator of updates.
#[derive(Debug)]
pub struct Market {
    options: MarketOptions,
    rng: Rng,
    universe: Universe,
    shapes: Vec<Shape>,
    /// Indices of shapes, each repeated by its frequency.
    wheel: Vec<usize>,
    rows: Vec<Row>,
}

/// Table (as index of its shape) and number of rows of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    pub shape: usize,
    pub rows: usize,
}

impl Market {
    pub fn new(options: MarketOptions, shapes: Vec<Shape>) -> Market {
        let mut rng = Rng::with_seed(options.seed);
        let universe = Universe::new(options.symbols, options.skew, &mut rng);
        let copies = |shape: &Shape| if shape.is_quotes() { options.quotes_per_trade.max(1) as usize } else { 1 };
        let wheel = shapes.iter().enumerate().flat_map(|(i, shape)| std::iter::repeat_n(i, copies(shape))).collect();
        Market { options, rng, universe, shapes, wheel, rows: Vec::new() }
    }

    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Appends the columns of the next update to `out`, one object after the other, without the list head.
    ///
    /// # Errors
    /// None with valid shapes; a symbol's name that cannot be serialised.
    pub fn update(&mut self, day_ns: u64, out: &mut Vec<u8>) -> Result<Made, EncodeError> {
        let shape_index = match self.wheel.len() {
            0 => 0,
            places => self.wheel.get(self.rng.usize(..places)).copied().unwrap_or(0),
        };
        let count = self.rng.usize(1..self.options.rows.max(1).saturating_mul(2));
        self.rows.clear();
        for offset in 0..count {
            let row = self.row(day_ns, offset);
            self.rows.push(row);
        }
        let mut writer = Writer::new(out);
        for column in self.shapes.get(shape_index).map_or(&[][..], |shape| &shape.columns) {
            self.column(column, &mut writer);
        }
        writer.finish()?;
        Ok(Made { shape: shape_index, rows: count })
    }

    fn row(&mut self, day_ns: u64, offset: usize) -> Row {
        let rng = &mut self.rng;
        let symbol = self.universe.draw(rng);
        let (_, price) = self.universe.step(symbol, rng);
        let half_spread = (price * 0.0002).max(0.01);
        let hundreds = |rng: &mut Rng| f64::from(100 * rng.u32(1..20));
        Row {
            time_ns: i64::try_from(day_ns).unwrap_or(i64::MAX).saturating_add(offset as i64),
            symbol,
            price,
            size: hundreds(rng),
            bid: cents(price - half_spread).max(0.0),
            ask: cents(price + half_spread),
            bid_size: hundreds(rng),
            ask_size: hundreds(rng),
            exchange: letter(EXCHANGES, rng),
            condition: letter(CONDITIONS, rng),
            noise: rng.u64(..),
        }
    }

    fn column(&self, column: &Column, writer: &mut Writer<'_>) {
        let rows = &self.rows;
        writer.vector_head(column.ty, types::ATTR_NONE, rows.len());
        let numbers = rows.iter().map(|row| number(column.role, row));
        match column.ty {
            ty @ (types::TIMESPAN
            | types::TIMESTAMP
            | types::TIME
            | types::SECOND
            | types::MINUTE
            | types::DATETIME) => {
                rows.iter().for_each(|row| put_time(ty, row.time_ns, self.options.date, writer));
            }
            types::SYMBOL => rows.iter().for_each(|row| match column.role {
                Role::Sym => {
                    writer.symbol_item(self.universe.symbols().get(row.symbol).map_or("", |s| s.name.as_str()))
                }
                Role::Condition => writer.symbol_item([row.condition].trim_ascii()),
                Role::Side => writer.symbol_item([side(row)]),
                _ => writer.symbol_item([row.exchange]),
            }),
            types::CHAR => rows.iter().for_each(|row| match column.role {
                Role::Condition => writer.raw(&[row.condition]),
                Role::Side => writer.raw(&[side(row)]),
                _ => writer.raw(&[row.exchange]),
            }),
            types::BOOL => rows.iter().for_each(|row| writer.raw(&[u8::from(row.noise % 50 == 0)])),
            types::BYTE => rows.iter().for_each(|row| writer.raw(&[row.noise as u8])),
            types::GUID => rows.iter().for_each(|row| {
                writer.raw(&row.noise.to_le_bytes());
                writer.raw(&row.noise.rotate_left(29).to_le_bytes());
            }),
            types::SHORT => numbers.for_each(|n| writer.raw(&(n as i16).to_le_bytes())),
            types::INT | types::MONTH | types::DATE => numbers.for_each(|n| writer.raw(&(n as i32).to_le_bytes())),
            types::LONG => numbers.for_each(|n| writer.raw(&(n as i64).to_le_bytes())),
            types::REAL => numbers.for_each(|n| writer.raw(&(n as f32).to_le_bytes())),
            types::FLOAT => numbers.for_each(|n| writer.raw(&n.to_le_bytes())),
            // A general list with one text for each row.
            _ => rows.iter().for_each(|row| writer.chars([row.exchange])),
        }
    }
}

fn letter(letters: &[u8], rng: &mut Rng) -> u8 {
    rng.choice(letters).copied().unwrap_or(b' ')
}

fn side(row: &Row) -> u8 {
    if row.noise.is_multiple_of(2) { b'B' } else { b'S' }
}

fn number(role: Role, row: &Row) -> f64 {
    match role {
        Role::Price => row.price,
        Role::Size => row.size,
        Role::Bid => row.bid,
        Role::Ask => row.ask,
        Role::BidSize => row.bid_size,
        Role::AskSize => row.ask_size,
        _ => (row.noise % 1000) as f64,
    }
}

fn put_time(ty: i8, time_ns: i64, date: i32, writer: &mut Writer<'_>) {
    let whole = |unit_ns: i64| (time_ns / unit_ns) as i32;
    match ty {
        types::TIMESPAN => writer.raw(&time_ns.to_le_bytes()),
        types::TIMESTAMP => writer.raw(&(i64::from(date).saturating_mul(DAY_NS).saturating_add(time_ns)).to_le_bytes()),
        types::DATETIME => writer.raw(&(f64::from(date) + time_ns as f64 / DAY_NS as f64).to_le_bytes()),
        types::SECOND => writer.raw(&whole(1_000_000_000).to_le_bytes()),
        types::MINUTE => writer.raw(&whole(60_000_000_000).to_le_bytes()),
        _ => writer.raw(&whole(1_000_000).to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Items, Limits, Value, decode};

    fn shape(name: &str, columns: &[(&str, i8)]) -> Shape {
        let empty = Value::Table {
            attr: 0,
            names: columns.iter().map(|(name, _)| name.as_bytes().to_vec()).collect(),
            columns: columns
                .iter()
                .map(|(_, ty)| {
                    let bytes = [ty.cast_unsigned(), 0, 0, 0, 0, 0];
                    decode::object(&bytes, Endian::Little, &Limits::default()).expect("an empty vector").0
                })
                .collect(),
        };
        Shape::of(name, &empty).expect("a shape")
    }

    fn shapes() -> Vec<Shape> {
        let trade = [("time", 16), ("sym", 11), ("price", 9), ("size", 6), ("stop", 1), ("cond", 10), ("ex", 10)];
        let quote =
            [("time", 12), ("sym", 11), ("bid", 9), ("ask", 8), ("bsize", 7), ("asize", 5), ("id", 2), ("note", 0)];
        vec![shape("trade", &trade), shape("quote", &quote)]
    }

    fn market(seed: u64) -> Market {
        let options = MarketOptions { seed, symbols: 50, skew: 1.0, rows: 5, quotes_per_trade: 4, date: 9000 };
        Market::new(options, shapes())
    }

    fn columns(mut bytes: &[u8]) -> Vec<Value> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (value, used) = decode::object(bytes, Endian::Little, &Limits::default()).expect("a column");
            bytes = &bytes[used..];
            found.push(value);
        }
        found
    }

    #[test]
    fn the_same_seed_makes_the_same_bytes() {
        let run = |seed| {
            let (mut market, mut out) = (market(seed), Vec::new());
            (0..200).for_each(|i| assert!(market.update(i * 1000, &mut out).is_ok()));
            out
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn columns_have_their_types_and_one_length() {
        let mut market = market(5);
        for i in 0..200 {
            let mut out = Vec::new();
            let made = market.update(i, &mut out).unwrap();
            let columns = columns(&out);
            let types: Vec<i8> = columns.iter().map(Value::type_code).collect();
            let wanted: Vec<i8> = market.shapes()[made.shape].columns.iter().map(|column| column.ty).collect();
            assert_eq!(types, wanted);
            assert!(columns.iter().all(|column| column.len() == made.rows));
            assert!((1..10).contains(&made.rows));
        }
    }

    #[test]
    fn quotes_have_the_configured_rate() {
        let mut market = market(6);
        let quotes = (0..5000).filter(|i| market.update(*i, &mut Vec::new()).unwrap().shape == 1).count();
        assert!((3800..4200).contains(&quotes), "{quotes}");
    }

    #[test]
    fn a_quote_has_its_bid_below_its_ask() {
        let mut market = market(7);
        for i in 0..500 {
            let mut out = Vec::new();
            if market.update(i, &mut out).unwrap().shape != 1 {
                continue;
            }
            let columns = columns(&out);
            let (Value::Vector { items: Items::Float(bid), .. }, Value::Vector { items: Items::Real(ask), .. }) =
                (&columns[2], &columns[3])
            else {
                panic!("{columns:?}")
            };
            assert!(bid.iter().zip(ask).all(|(bid, ask)| *bid < f64::from(*ask)));
        }
    }
}

//! Decides what `'` and `':` after a blank mean: an iterator, a signal or a composition.

use crate::syntax::lex::{Placed, Token};
use crate::syntax::parse::k;
use columns::table::function::Iterator;

/// Reads `'` and `':` after a blank as iterators of the verb or lambda before the blank, where nothing else makes sense: `1 _ 'x` and `x {y} 'z` iterate and signal
/// nothing. `x: 'text` signals, and `'[f;g]` after blanks is a composition; with one argument it iterates.
pub(super) fn join_iterators(tokens: &mut [Placed], is_k: bool) {
    let unary = unary_brackets(tokens);
    for at in 1..tokens.len() {
        let (before, rest) = tokens.split_at_mut(at);
        let (Some(before), [iterator, after, ..]) = (before.last(), rest) else { continue };
        if !matches!(iterator.token, Token::Iterator(Iterator::Each | Iterator::EachPrior)) || !iterator.spaced {
            continue;
        }
        let follows_verb = match before.token {
            Token::Glyph(glyph) => !glyph.ends_with(':'),
            Token::Name(name) => k::is_infix_word(name, is_k),
            Token::Close(bracket) => bracket == b'}',
            _ => false,
        };
        iterator.spaced = if matches!(after.token, Token::Open(b'[')) {
            let follows_value = matches!(before.token, Token::Close(_) | Token::Name(_));
            !(follows_verb || follows_value) || !unary.get(at + 1).is_some_and(|unary| *unary)
        } else {
            !follows_verb
        };
    }
}

/// For each token, whether it opens brackets around one argument. Empty if no iterator stands between a blank and brackets.
fn unary_brackets(tokens: &[Placed]) -> Vec<bool> {
    let is_spaced = |pair: &[Placed]| {
        matches!(pair, [iterator, after]
            if iterator.spaced && matches!((&iterator.token, &after.token), (Token::Iterator(_), Token::Open(b'['))))
    };
    if !tokens.windows(2).any(is_spaced) {
        return Vec::new();
    }
    let mut unary = vec![false; tokens.len()];
    // Open brackets: position, and whether a semicolon stands directly within.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::Open(_) => open.push((at, false)),
            Token::Semicolon => {
                if let Some((_, has_more)) = open.last_mut() {
                    *has_more = true;
                }
            }
            Token::Close(_) => {
                if let Some((start, false)) = open.pop()
                    && start + 1 < at
                    && let Some(unary) = unary.get_mut(start)
                {
                    *unary = true;
                }
            }
            _ => {}
        }
    }
    unary
}

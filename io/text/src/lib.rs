//! Text from outside as people may see it, in lists, logs and terminals.

/// Whether a character can be shown: no control character, and none that is invisible or changes the order or place of others
/// (Unicode's formatting characters, among them U+202E, and its line and paragraph separators). A name with such a character
/// looks like another one, or hides a part of a line of a log.
pub fn is_visible(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text cut to a number of characters, with `replacement` for what can't be shown.
pub fn shown(text: &str, max_chars: usize, replacement: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(max_chars) {
        match is_visible(letter) {
            true => shown.push(letter),
            false => shown.push_str(replacement),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_hide_or_turn_others_around_are_not_shown() {
        for letter in ['a', 'é', 'ß', '日', ' ', '😀', '\u{301}'] {
            assert!(is_visible(letter), "{letter:?}");
        }
        for letter in [
            '\0',
            '\u{1b}',
            '\u{85}',
            '\u{200b}',
            '\u{200f}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(!is_visible(letter), "{letter:?}");
        }
        assert_eq!(shown("ad\u{202e}nim\n", 4, "?"), "ad?n");
        assert_eq!(shown("ad\u{202e}nim\n", 9, ""), "adnim");
    }
}

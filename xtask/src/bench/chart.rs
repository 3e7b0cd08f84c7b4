//! The chart of the benchmarks: processor time for each operation, of the array and of its peer.

use super::record::{Figure, number};
use std::fmt::Write;

/// Widths and heights in pixels.
const LABEL: f64 = 270.0;
const BARS: f64 = 400.0;
const NUMBER: f64 = 70.0;
const BAR: f64 = 11.0;
const ROW: f64 = 34.0;
const HEAD: f64 = 44.0;

/// Colours that differ in lightness, too.
const ARRAY: &str = "#0b5cad";
const PEER: &str = "#b3bcc7";

/// Figures with this name are in it.
const SHOWN: &str = ": CPU per I/O";

/// An SVG image of the processor times among these figures.
pub fn chart(figures: &[Figure], peer: &str) -> String {
    let times: Vec<(&str, f64, f64)> = figures
        .iter()
        .filter_map(|it| Some((it.name.strip_suffix(SHOWN)?, number(&it.array)?, number(&it.peer)?)))
        .collect();
    let most = times.iter().fold(1.0, |most: f64, (_, array, peer)| most.max(*array).max(*peer));
    let (width, height) = (LABEL + BARS + NUMBER, HEAD + ROW * times.len() as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Processor time for each operation: the array and {peer}</title>\n<rect width=\"{width}\" \
         height=\"{height}\" fill=\"#fff\"/>\n<text x=\"8\" y=\"18\" font-weight=\"bold\">Processor time for each operation, in \
         µs: less is better</text>\n"
    );
    // A string takes everything.
    for (x, colour, name) in [(8.0, ARRAY, "the array"), (110.0, PEER, peer)] {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"27\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"36\">{name}</text>",
            x + 15.0
        );
    }
    for (index, (name, array, peer)) in times.iter().enumerate() {
        let top = HEAD + ROW * index as f64;
        let _ = writeln!(out, "<text x=\"8\" y=\"{}\">{name}</text>", top + BAR + 4.0);
        for (line, value, colour) in [(0.0, array, ARRAY), (1.0, peer, PEER)] {
            let (y, long) = (top + line * (BAR + 1.0), (value / most * BARS).max(1.0));
            let _ = writeln!(
                out,
                "<rect x=\"{LABEL}\" y=\"{y}\" width=\"{long:.1}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{:.1}\" \
                 y=\"{}\" font-size=\"10\">{value}</text>",
                LABEL + long + 4.0,
                y + BAR - 2.0
            );
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::figure;

    #[test]
    fn bars_are_as_long_as_the_times() {
        let found = chart(
            &[
                figure("reads: CPU per I/O", "5.0 µs", "20.0 µs"),
                figure("reads: IOPS, × tgt", "9", "1"),
                figure("writes: CPU per I/O", "–", "2 µs"),
            ],
            "tgt",
        );
        assert!(found.contains("width=\"100.0\"") && found.contains("width=\"400.0\""), "{found}");
        assert!(found.contains(">reads<") && !found.contains("writes") && !found.contains("IOPS"));
    }
}

//! The charts of the report, as SVG.

use crate::run::Report;
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const WIDTH: u32 = 860;
/// Colours of the targets in order: the array, its peer.
const COLOURS: [RGBColor; 2] = [RGBColor(0x1c, 0x7e, 0xd6), RGBColor(0xad, 0xb5, 0xbd)];
/// Colours of the steps in order, repeated.
const LINES: [RGBColor; 6] = [
    RGBColor(0x1c, 0x7e, 0xd6),
    RGBColor(0xe8, 0x59, 0x0c),
    RGBColor(0x2b, 0x8a, 0x3e),
    RGBColor(0x9c, 0x36, 0xb5),
    RGBColor(0xc9, 0x2a, 0x2a),
    RGBColor(0x49, 0x50, 0x57),
];
const FONT: &str = "sans-serif";
const BAR: i32 = 18;
const LEFT: i32 = 240;
/// Room for a number after the longest bar.
const RIGHT: i32 = 130;

/// The chart value of a workload for every step on every target; `None` if no step has it.
pub fn bars(report: &Report) -> Result<Option<String>> {
    let mut rows = Vec::new();
    for step in &report.steps {
        if let Some(middle) = step.values.get(&report.chart) {
            rows.push((format!("{} · {}", step.step, step.target), step.target, *middle));
        }
    }
    let Some(most) =
        rows.iter().map(|(_, _, middle)| middle.high).reduce(f64::max).filter(|most| *most > 0.0)
    else {
        return Ok(None);
    };
    let mut svg = String::new();
    let height = rows.len() as i32 * (BAR + 8) + 8;
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        let text = (FONT, 13).into_font().color(&BLACK);
        let scale = f64::from(WIDTH as i32 - LEFT - RIGHT) / most;
        let to_x = |value: f64| LEFT + (value * scale) as i32;
        for (index, (label, target, middle)) in rows.iter().enumerate() {
            let y = 8 + index as i32 * (BAR + 8);
            let colour = COLOURS[usize::from(*target == "tgt")];
            let bar = [(LEFT, y), (to_x(middle.median), y + BAR)];
            let draw = || -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
                area.draw_text(label, &text, (4, y + 2))?;
                area.draw(&Rectangle::new(bar, colour.filled()))?;
                let middle_y = y + BAR / 2;
                let spread = vec![(to_x(middle.low), middle_y), (to_x(middle.high), middle_y)];
                area.draw(&PathElement::new(spread, BLACK))?;
                let value = super::number(middle.median);
                area.draw_text(&value, &text, (to_x(middle.high) + 6, y + 2))
            };
            draw().map_err(|error| anyhow!("chart of {}: {error}", report.name))?;
        }
        area.present().map_err(|error| anyhow!("chart of {}: {error}", report.name))?;
    }
    Ok(Some(svg))
}

/// Commands per second over time, of every step on the first target; `None` if there are none.
pub fn lines(report: &Report) -> Result<Option<String>> {
    let target = report.steps.first().map(|step| step.target);
    let steps: Vec<_> =
        report.steps.iter().filter(|step| Some(step.target) == target && step.line.len() > 1).collect();
    let longest = steps.iter().map(|step| step.line.len()).max().unwrap_or(0) as f64 / 10.0;
    let most = steps.iter().flat_map(|step| &step.line).copied().fold(0.0, f64::max);
    if longest == 0.0 || most == 0.0 {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, 260)).into_drawing_area();
        let draw = || -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
            let mut chart = ChartBuilder::on(&area)
                .margin(8)
                .x_label_area_size(36)
                .y_label_area_size(72)
                .build_cartesian_2d(0.0..longest, 0.0..most * 1.05)?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_desc("seconds")
                .y_desc("commands a second")
                .label_style((FONT, 12))
                .draw()?;
            for (index, step) in steps.iter().enumerate() {
                let colour = LINES[index % LINES.len()];
                let points = step.line.iter().enumerate().map(|(at, rate)| (at as f64 / 10.0, *rate));
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?.label(&step.step).legend(
                    move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)),
                );
            }
            chart
                .configure_series_labels()
                .label_font((FONT, 12))
                .background_style(WHITE.mix(0.8))
                .border_style(TRANSPARENT)
                .position(SeriesLabelPosition::LowerRight)
                .draw()?;
            area.present()
        };
        draw().map_err(|error| anyhow!("chart of {}: {error}", report.name))?;
    }
    Ok(Some(svg))
}

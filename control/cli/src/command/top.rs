//! Live view on the whole terminal: rates, latencies, the busiest volumes, hosts or controllers, running jobs.

use super::performance::{iops, last, rate};
use crate::client::Client;
use crate::show::Shown;
use crate::show::{micros, text};
use anyhow::{Result, ensure};
use client::api;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use serde_json::Value;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval at which the array is polled.
const POLL: Duration = Duration::from_secs(1);

/// Range of the curves, in seconds.
const RANGE_SECONDS: u64 = 120;

/// What the busiest are chosen from.
#[derive(Clone, Copy, Default)]
enum By {
    #[default]
    Volume,
    Host,
    Controller,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Host => "host",
            Self::Controller => "controller",
        }
    }
}

/// The contents of the screen.
#[derive(Default)]
struct Screen {
    array: Value,
    points: Value,
    busiest: Value,
    jobs: Value,
    /// What the busiest are shown of.
    by: By,
    /// Why the array cannot be reached.
    error: Option<String>,
}

/// Shows the view until q is pressed.
pub fn run(client: &Client) -> Result<()> {
    ensure!(
        std::io::stdout().is_terminal(),
        "`performance top` needs a terminal: `ashlar performance history --watch` prints lines"
    );
    let mut screen = Screen::default();
    screen.ask(client)?;
    let mut terminal = ratatui::try_init()?;
    let ended = follow(client, &mut terminal, &mut screen);
    ratatui::restore();
    ended
}

fn follow(client: &Client, terminal: &mut ratatui::DefaultTerminal, screen: &mut Screen) -> Result<()> {
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| draw(frame, screen))?;
        let due = POLL.saturating_sub(asked.elapsed());
        if event::poll(due)? {
            let Event::Key(key) = event::read()? else { continue };
            let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                _ if key.kind != KeyEventKind::Press => continue,
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                _ if interrupted => return Ok(()),
                KeyCode::Char('v') => screen.by = By::Volume,
                KeyCode::Char('h') => screen.by = By::Host,
                KeyCode::Char('c') => screen.by = By::Controller,
                _ => continue,
            }
        }
        asked = Instant::now();
        screen.error = screen.ask(client).err().map(|error| error.to_string());
    }
}

impl Screen {
    fn ask(&mut self, client: &Client) -> Result<()> {
        self.array = client.call(api::show_array())?.value;
        self.points = last(client, RANGE_SECONDS)?;
        let by = Some(self.by.name().to_owned());
        let busiest = api::ListBusiest { by, limit: Some(50), ..Default::default() };
        self.busiest = Shown::from(client.call(api::list_busiest(&busiest))?).value;
        let running = api::ListJobs { filter: Some("state=running".into()), ..Default::default() };
        self.jobs = Shown::from(client.call(api::list_jobs(&running))?).value;
        Ok(())
    }

    /// A number of every second, the last one last.
    fn curve(&self, kind: &str, what: &str) -> Vec<u64> {
        let points = self.points.as_array().into_iter().flatten();
        points.map(|point| point[kind][what].as_f64().unwrap_or(0.0) as u64).collect()
    }

    /// The newest point that is known.
    fn now(&self, kind: &str) -> &Value {
        let points = self.points.as_array().into_iter().flatten();
        points.rev().map(|point| &point[kind]).find(|work| !work["iops"].is_null()).unwrap_or(&Value::Null)
    }
}

fn draw(frame: &mut Frame, screen: &Screen) {
    let jobs = screen.jobs.as_array().map_or(0, Vec::len).min(3) as u16;
    let parts = [
        Constraint::Length(2),
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Min(4),
        Constraint::Length(jobs),
        Constraint::Length(1),
    ];
    let [head, reads, writes, busiest, running, foot] = Layout::vertical(parts).areas(frame.area());
    let (array, space) = (&screen.array, &screen.array["space"]);
    let title =
        format!("{} – {}, {} sessions", text(array, "name"), text(array, "state"), text(array, "sessions"));
    let used = format!(
        "{} of {} free, reduction {}",
        rate(&space["free"]),
        rate(&space["total"]),
        array["reduction"]["data"].as_f64().map_or_else(|| "-".into(), |it| format!("{it:.1} : 1"))
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(vec![Line::styled(title, bold), Line::raw(used)]), head);
    for (area, kind) in [(reads, "read"), (writes, "write")] {
        let now = screen.now(kind);
        let title = format!(
            " {kind}: {} IOPS, {}/s, mean {}, p99 {} ",
            iops(&now["iops"]),
            rate(&now["bytes_per_second"]),
            micros(&now["latency_us"]["mean"]),
            micros(&now["latency_us"]["p99"])
        );
        let curve = screen.curve(kind, "iops");
        // The newest are at the right, and always there.
        let width = usize::from(area.width.saturating_sub(2));
        let shown = curve.get(curve.len().saturating_sub(width)..).unwrap_or_default().to_vec();
        frame.render_widget(Sparkline::default().block(Block::bordered().title(title)).data(shown), area);
    }
    let by = screen.by.name().to_uppercase();
    let header = [by.as_str(), "IOPS", "PER S", "READ", "WRITE", "MEAN", "P99"];
    let rows = screen.busiest.as_array().into_iter().flatten().map(|it| {
        let total = &it["total"];
        Row::new([
            text(it, "name"),
            iops(&total["iops"]),
            rate(&total["bytes_per_second"]),
            iops(&it["read"]["iops"]),
            iops(&it["write"]["iops"]),
            micros(&total["latency_us"]["mean"]),
            micros(&total["latency_us"]["p99"]),
        ])
    });
    let widths = [28, 9, 12, 9, 9, 9, 9].map(Constraint::Length);
    let table = Table::new(rows, widths).header(Row::new(header).style(bold));
    frame.render_widget(table.block(Block::bordered().title(" busiest ")), busiest);
    let lines = screen.jobs.as_array().into_iter().flatten().map(|job| {
        Line::raw(format!(
            "{:>3.0} %  {}",
            job["progress"].as_f64().unwrap_or(0.0) * 100.0,
            text(job, "description")
        ))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), running);
    let keys = "v volumes   h hosts   c controllers   q quit";
    frame.render_widget(Paragraph::new(screen.error.as_deref().unwrap_or(keys)), foot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    #[test]
    fn the_screen_shows_rates_and_the_busiest() {
        let work = json!({ "iops": 1234.0, "bytes_per_second": 1048576.0, "latency_us": { "mean": 80.0, "p99": 2000.0 } });
        let screen = Screen {
            array: json!({ "name": "lab", "state": "online", "sessions": 4, "space": { "free": 1024, "total": 2048 } }),
            points: json!([{ "read": work, "write": work }, { "read": { "iops": null }, "write": { "iops": null } }]),
            busiest: json!([{ "name": "db1", "total": work, "read": work, "write": work }]),
            jobs: json!([{ "description": "read and verify everything", "progress": 0.5 }]),
            ..Screen::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &screen)).expect("a screen");
        let shown = terminal.backend().to_string();
        for part in [
            "lab – online, 4 sessions",
            "1234 IOPS, 1.0 MiB/s, mean 80 µs, p99 2.0 ms",
            "db1",
            "50 %",
            "q quit",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

/** Lines over time: one cursor for all charts of a page, zoom by dragging, a picture to take along. */
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Stretch } from "../api/performance";

export type Line = { label: string; color: Ink; values: (number | null)[]; dashed?: boolean };

/** The colours of the drawing: the canvas knows no variables of the style sheet. */
export type Ink = "read" | "write" | "offload" | "space";
type Colours = Record<Ink | "text" | "grid" | "ground", string>;
const COLOURS: Record<"light" | "dark", Colours> = {
  light: { read: "#1d6384", write: "#b8720a", offload: "#3f7d2c", space: "#1d6384", text: "#5b6770", grid: "#e9ecef", ground: "#ffffff" },
  dark: { read: "#5fa9c9", write: "#d9a24a", offload: "#7fb86a", space: "#5fa9c9", text: "#9aa6b0", grid: "#2c353d", ground: "#181e24" },
};

export function useColours(): Colours {
  return COLOURS[useComputedColorScheme("light", { getInitialValueInEffect: false })];
}

type Props = {
  title: string;
  /** Seconds since 1970. */
  times: number[];
  lines: Line[];
  /** The span of the axis, also where data are missing. */
  span: Stretch;
  format: (value: number) => string;
  /** The axis is in steps of powers of two, for bytes. */
  binary?: boolean;
  height?: number;
  /** Names of lines with their values below the chart; without it the page shows them. */
  legend?: boolean;
  /** Charts with the same key share a cursor. */
  sync?: string;
  /** The range chosen by dragging, in seconds since 1970. */
  onZoom?: (from: number, to: number) => void;
};

export function Chart({ title, times, lines, span, format, binary = false, height = 200, legend = true, sync, onZoom }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const latest = useRef({ format, onZoom, times, lines, span });
  const colours = useColours();
  const shape = JSON.stringify([lines.map(({ label, color, dashed }) => [label, color, dashed]), sync, height, legend, colours.ground]);
  useEffect(() => {
    latest.current = { format, onZoom, times, lines, span };
  });
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(options(latest, colours, { width: element.clientWidth, height, sync, binary, legend }), dataOf(latest.current), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- recreated only when its shape changes
  }, [shape]);
  useEffect(() => {
    plot.current?.setData(dataOf({ times, lines }));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- a span is made by each rendering
  }, [times, lines, JSON.stringify(span)]);
  return <div ref={place} role="img" aria-label={`${title}: ${summary(lines, format)}`} data-chart={title} style={{ minHeight: height }} />;
}

type Latest = { current: { format: (value: number) => string; onZoom?: Props["onZoom"]; times: number[]; lines: Line[]; span: Stretch } };

/** The drawn points, with a gap between two times that are further apart than usual. */
export function dataOf({ times, lines }: { times: number[]; lines: Pick<Line, "values">[] }): [number[], ...(number | null)[][]] {
  const steps = times.slice(1).map((time, index) => time - (times[index] ?? time));
  const usual = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
  const gaps = new Set(steps.flatMap((step, index) => (step > 1.5 * usual ? [index] : [])));
  if (gaps.size === 0) return [times, ...lines.map((line) => line.values)];
  const broken = <T,>(values: T[], filler: (before: T) => T) => values.flatMap((value, index) => (gaps.has(index) ? [value, filler(value)] : [value]));
  return [broken(times, (time) => time + usual), ...lines.map((line) => broken<number | null>(line.values, () => null))];
}

/** The first and the last time of the axis, in seconds. */
export function rangeOf(span: Stretch, now: number): [number, number] {
  return "from" in span ? [span.from, span.to] : [now - span.last, now];
}

/** The newest values in words, for screen readers. */
function summary(lines: Line[], format: (value: number) => string): string {
  const newest = lines.map((line) => {
    const value = line.values.findLast((it) => it !== null);
    return `${line.label} ${value == null ? "unknown" : format(value)}`;
  });
  return newest.join(", ") || "nothing yet";
}

/** 1, 2, 4, … bytes. */
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Values without a neighbour: no line shows them. */
function alone(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  return Array.from(values.keys()).filter((index) => values[index] != null && values[index - 1] == null && values[index + 1] == null);
}

function options(latest: Latest, colours: Colours, { width, height, sync, binary, legend }: { width: number; height: number; sync: string | undefined; binary: boolean; legend: boolean }): uPlot.Options {
  const axis = { stroke: colours.text, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font: "11px 'Inter Variable', sans-serif" };
  const say = (value: number | null | undefined) => (value == null ? "–" : latest.current.format(value));
  return {
    width,
    height,
    cursor: { ...(sync !== undefined && { sync: { key: sync, setSeries: false } }), drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    legend: { show: legend, live: true },
    scales: { x: { time: true, range: () => rangeOf(latest.current.span, Date.now() / 1000) }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((it, index) => tick(it, step, ticks[index - 1])) }, { ...axis, size: 76, ...(binary && { incrs: BINARY }), values: (_, ticks) => ticks.map(say) }],
    series: [
      { label: "Time", value: (_, time: number | null) => (time == null ? "–" : WHEN.format(new Date(time * 1000))) },
      ...latest.current.lines.map(({ label, color, dashed }) => ({
        label,
        stroke: colours[color],
        width: 1.5,
        ...(dashed && { dash: [5, 4] }),
        points: { show: true, size: 4, fill: colours[color], filter: alone },
        spanGaps: false,
        value: (_: uPlot, value: number | null) => say(value),
      })),
    ],
    hooks: {
      // With the cursor off the chart, the legend shows the newest values.
      setCursor: [(made) => (made.cursor.left ?? -1) < 0 && newest(made)],
      setData: [newest],
      setSelect: [
        (made) => {
          const { left, width: wide } = made.select;
          if (wide < 4) return;
          latest.current.onZoom?.(Math.floor(made.posToVal(left, "x")), Math.ceil(made.posToVal(left + wide, "x")));
          made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** The time under the cursor, with its date: a chart may show last week. */
const WHEN = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** Shows the newest known value of each line. */
function newest(plot: uPlot): void {
  const idxs = plot.data.map((values) => {
    const index = Array.from(values).findLastIndex((it) => it != null);
    return index < 0 ? null : index;
  });
  plot.setLegend({ idxs }, false);
}

const day = (time: Date) => time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });

/** A time at the axis, as precise as the distance of two ticks; the first tick of each day has the date below. */
export function tick(seconds: number, step: number, before?: number): string {
  const time = new Date(seconds * 1000);
  if (step >= 86_400) return day(time);
  const clock = time.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
  const same = before !== undefined && day(new Date(before * 1000)) === day(time);
  return same ? clock : `${clock}\n${day(time)}`;
}

/** Saves all charts below an element as one picture. */
export function saveCharts(below: HTMLElement, name: string, heading: string, ground: string, ink: string): void {
  const charts = [...below.querySelectorAll<HTMLElement>("[data-chart]")].flatMap((it) => {
    const canvas = it.querySelector("canvas");
    return canvas ? [{ title: it.dataset["chart"] ?? "", canvas }] : [];
  });
  const ratio = window.devicePixelRatio || 1;
  const above = 30 * ratio;
  const picture = document.createElement("canvas");
  picture.width = Math.max(...charts.map(({ canvas }) => canvas.width), 1);
  picture.height = above + charts.reduce((sum, { canvas }) => sum + canvas.height + above, 0);
  const pen = picture.getContext("2d");
  if (!pen) return;
  pen.fillStyle = ground;
  pen.fillRect(0, 0, picture.width, picture.height);
  pen.fillStyle = ink;
  pen.font = `${14 * ratio}px sans-serif`;
  pen.fillText(heading, 8 * ratio, 20 * ratio);
  let top = above;
  for (const { title, canvas } of charts) {
    pen.fillText(title, 8 * ratio, top + 20 * ratio);
    pen.drawImage(canvas, 0, top + above);
    top += above + canvas.height;
  }
  picture.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** Hands a file to the browser's downloads. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

import { useEffect, useRef } from "react";
import type { SchemaLatencyMap as LatencyMap } from "../../api/schema";
import { useColours } from "../../parts/chart";
import { latency, moment } from "../../format";
import type { Class } from "./lines";

const HEIGHT = 190;

/** Latency distribution over time: a darker cell has more commands. */
export function HeatMap({ map, of }: { map: LatencyMap; of: Class }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  const rows = extent(map, of);
  const columns = map[of];
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen || !canvas.current || !rows) return;
    const { width, height } = canvas.current;
    pen.clearRect(0, 0, width, height);
    const [low, high] = rows;
    const max = Math.max(...columns.flatMap((it) => it ?? []), 1);
    const [wide, tall] = [width / columns.length, height / (high - low + 1)];
    pen.fillStyle = colours[of];
    columns.forEach((counts, x) => {
      for (let row = low; counts && row <= high; row += 1) {
        const count = counts[row] ?? 0;
        if (count === 0) continue;
        pen.globalAlpha = 0.12 + 0.88 * (Math.log1p(count) / Math.log1p(max));
        pen.fillRect(Math.floor(x * wide), Math.floor((high - row) * tall), Math.ceil(wide), Math.ceil(tall));
      }
    });
    pen.globalAlpha = 1;
  });
  if (!rows) return <p className="quiet" style={{ fontSize: 13 }}>No {of}s in this period.</p>;
  const [low, high] = rows;
  const label = (row: number) => latency(map.buckets_us[row] ?? 0);
  return (
    <div className="heat-map">
      <div className="heat-map-scale quiet number" aria-hidden>
        <span>{label(high)}</span>
        {high - low > 1 && <span>{label(Math.round((low + high) / 2))}</span>}
        <span>{label(low)}</span>
      </div>
      <canvas ref={canvas} width={960} height={HEIGHT} role="img" aria-label={`Latency of ${of}s over time: from ${label(low)} to ${label(high)}`} />
      <span />
      <div className="heat-map-times quiet number" aria-hidden>
        <span>{moment((map.times[0] ?? 0) * 1000)}</span>
        <span>{moment((map.times.at(-1) ?? 0) * 1000)}</span>
      </div>
    </div>
  );
}

/** The first and last bucket with commands. */
function extent(map: LatencyMap, of: Class): [number, number] | undefined {
  const sums = map.buckets_us.map((_, row) => map[of].reduce((sum, counts) => sum + (counts?.[row] ?? 0), 0));
  const low = sums.findIndex((it) => it > 0);
  return low < 0 ? undefined : [low, sums.findLastIndex((it) => it > 0)];
}

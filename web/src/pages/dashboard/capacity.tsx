import { Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { capacity } from "../../api/performance";
import { drives, protection } from "../../api/queries";
import type { SchemaSpace as Space } from "../../api/schema";
import { bytes, percent, plural } from "../../format";
import { Panel } from "../../parts/panel";
import { Ring } from "../../parts/ring";

/** Shares of the usable capacity from which the array raises a warning and a critical alert. */
const WARNING = 0.7;
const CRITICAL = 0.9;

export type Level = "normal" | "warning" | "critical";

export function level(share: number): Level {
  return share >= CRITICAL ? "critical" : share >= WARNING ? "warning" : "normal";
}

const LEVELS: Record<Level, { color: string; word: string }> = {
  normal: { color: "var(--ashlar-data)", word: "" },
  warning: { color: "var(--ashlar-warning)", word: "filling up" },
  critical: { color: "var(--ashlar-critical)", word: "nearly full" },
};

/** The use of the drives by kind of data, and the usable part of their raw size. */
export function CapacityPanel({ space }: { space: Space }) {
  const used = Math.max(0, space.total - space.free);
  const pending = Math.max(0, used - space.physical - space.metadata);
  const share = space.total > 0 ? used / space.total : 0;
  const now = level(share);
  const { color, word } = LEVELS[now];
  const parts = [
    { name: "Data", value: space.physical, color, says: "unique data after compression" },
    { name: "Metadata", value: space.metadata, color: "var(--ashlar-data-3)", says: "maps and tables of the array" },
    { name: "Pending", value: pending, color: "var(--ashlar-data-2)", says: "reserved for writes in progress" },
  ];
  return (
    <Panel title="Capacity" actions={<Forecast />}>
      <Group gap="xl" align="center" wrap="wrap">
        <Ring parts={parts} total={space.total} label={`${percent(share)} of the usable capacity is in use${word && `: ${word}`}`}>
          <Text fz={26} fw={600} lh={1.1} className="number" data-level={now} c={now === "normal" ? undefined : color}>
            {percent(share)}
          </Text>
          <Text size="xs" className="quiet">
            {word || "used"}
          </Text>
        </Ring>
        <Stack gap={10} style={{ flex: "1 1 220px" }}>
          {parts
            .filter(({ name, value }) => name !== "Pending" || value > 0)
            .map((part) => (
              <Line key={part.name} {...part} />
            ))}
          <Line name="Free" value={space.free} color="var(--ashlar-line)" says={space.reclaimable > 0 ? `of ${bytes(space.total)} usable; ${bytes(space.reclaimable)} of the drives is reclaimed as needed` : `of ${bytes(space.total)} usable`} />
        </Stack>
      </Group>
      <FromRaw usable={space.total} />
    </Panel>
  );
}

/** The forecast of the day on which the array is full, if it is near. */
function Forecast() {
  const { data } = useQuery(capacity(7 * 86_400));
  if (!data) return null;
  const { days_to_full: days, bytes_per_day: rate } = data.forecast;
  if (days == null) return rate == null ? null : <span className="quiet">not filling up</span>;
  const color = days < 7 ? "var(--ashlar-critical)" : days < 30 ? "var(--ashlar-warning)" : undefined;
  return (
    <Text size="sm" className="number" fw={500} c={color} title={rate == null ? undefined : `${bytes(Math.max(0, rate))} a day by the trend of the last month`}>
      Full in {days < 1 ? "less than a day" : plural(Math.floor(days), "day")}
    </Text>
  );
}

/** The steps from the drives' sizes to the usable capacity, each with its reason. */
function FromRaw({ usable }: { usable: number }) {
  const all = useQuery(drives()).data;
  const shield = useQuery(protection()).data;
  const raw = (all ?? []).filter((it) => it.state !== "failed").reduce((sum, it) => sum + it.size, 0);
  if (!all || !shield || raw <= usable) return null;
  const parity = shield.parity_bytes == null ? undefined : Math.min(shield.parity_bytes, raw - usable);
  const reserve = "labels, journal, checkpoints, segment cleaning";
  const steps = [
    { name: "Raw", value: raw, says: `size of ${plural(all.filter((it) => it.state !== "failed").length, "drive")}` },
    ...(parity === undefined
      ? [{ name: "Parity and reserve", value: usable - raw, says: `parity, ${reserve}` }]
      : [
          { name: "Parity", value: -parity, says: shield.promises > 0 ? `tolerates ${plural(shield.promises, "drive failure")}` : "none: single drive" },
          { name: "Reserve", value: -(raw - usable - parity), says: reserve },
        ]),
    { name: "Usable", value: usable, says: "for data and metadata, before reduction" },
  ];
  return (
    <dl className="from-raw" aria-label="From raw to usable capacity">
      {steps.map(({ name, value, says }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="number">
            {value < 0 ? "− " : ""}
            {bytes(Math.abs(value))}
          </dd>
          <dd className="quiet">{says}</dd>
        </div>
      ))}
    </dl>
  );
}

function Line({ name, value, color, says }: { name: string; value: number; color: string; says: string }) {
  return (
    <Group justify="space-between" wrap="nowrap" gap="sm">
      <Group gap={10} wrap="nowrap">
        <span aria-hidden style={{ width: 10, height: 10, borderRadius: 3, background: color, flex: "none" }} />
        <div>
          <Text size="sm">{name}</Text>
          <Text size="xs" className="quiet">
            {says}
          </Text>
        </div>
      </Group>
      <Text size="sm" fw={500} className="number" style={{ whiteSpace: "nowrap" }}>
        {bytes(value)}
      </Text>
    </Group>
  );
}

import { Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { capacity } from "../../api/performance";
import type { SchemaSpace as Space } from "../../api/schema";
import { bytes, percent, plural } from "../../format";
import { Panel } from "../../parts/panel";
import { Ring } from "../../parts/ring";

/** How full the drives are, and of what. */
export function CapacityPanel({ space }: { space: Space }) {
  const used = Math.max(0, space.total - space.free);
  const pending = Math.max(0, used - space.physical - space.metadata);
  const parts = [
    { name: "Data", value: space.physical, color: "var(--ashlar-data)", says: "unique data after compression" },
    { name: "Metadata", value: space.metadata, color: "var(--ashlar-data-3)", says: "metadata" },
    { name: "Pending", value: pending, color: "var(--ashlar-data-2)", says: "reserved for writes in progress" },
  ];
  return (
    <Panel title="Capacity">
      <Group gap="xl" align="center" wrap="wrap">
        <Ring parts={parts} total={space.total} label={`${percent(used / space.total)} of the drives is in use`}>
          <Text fz={26} fw={600} lh={1.1} className="number">
            {percent(used / space.total)}
          </Text>
          <Text size="xs" className="quiet">
            used
          </Text>
        </Ring>
        <Stack gap={10} style={{ flex: "1 1 220px" }}>
          {parts
            .filter(({ name, value }) => name !== "Pending" || value > 0)
            .map((part) => (
              <Line key={part.name} {...part} />
            ))}
          <Line name="Free" value={space.free} color="var(--ashlar-line)" says={space.reclaimable > 0 ? `of ${bytes(space.total)} usable; ${bytes(space.reclaimable)} of the drives is reclaimed as needed` : `of ${bytes(space.total)} usable`} />
          <Forecast />
        </Stack>
      </Group>
    </Panel>
  );
}

/** When it will be full, when that is in sight. */
function Forecast() {
  const { data } = useQuery(capacity(7 * 86_400));
  const days = data?.forecast.days_to_full;
  if (days == null) return null;
  return (
    <Text size="sm" className="number" c={days < 30 ? "orange" : undefined}>
      Full in {days < 1 ? "less than a day" : plural(Math.floor(days), "day")}.
    </Text>
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

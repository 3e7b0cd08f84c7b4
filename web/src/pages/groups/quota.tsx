import { Progress } from "@mantine/core";
import type { SchemaGroup as Group } from "../../api/schema";
import { bytes, percent } from "../../format";

/** The used part of a group's quota. */
export function QuotaBar({ group, width = 90 }: { group: Group; width?: number | string }) {
  const limit = group.hard_quota ?? group.soft_quota;
  if (!limit) return <span className="quiet">none</span>;
  const share = group.mapped / limit;
  const beyond = group.soft_quota != null && group.mapped > group.soft_quota;
  const color = share >= 1 ? "red" : beyond ? "orange" : "slate";
  return (
    <div style={{ display: "flex", alignItems: "center", gap: 10 }}>
      <Progress value={Math.min(1, share) * 100} w={width} size={6} color={color} aria-hidden />
      <span className="number quiet">
        {percent(share)} of {bytes(limit)}
        {share >= 1 ? ", full" : beyond ? ", beyond the soft quota" : ""}
      </span>
    </div>
  );
}

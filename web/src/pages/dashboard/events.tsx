import { Anchor, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { events } from "../../api/queries";
import { moment } from "../../format";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { SeverityDot } from "../events/events";
import { PlaceLink } from "../place";

/** Number of newest events shown. */
const SHOWN = 6;

export function RecentEvents() {
  const { data, error } = useInfiniteQuery(events("info"));
  const newest = data?.pages[0]?.slice(0, SHOWN);
  return (
    <Panel
      title="Events"
      actions={
        <Anchor component={Link} href="/events" size="sm">
          All events
        </Anchor>
      }
    >
      <ProblemAlert error={error} />
      {newest?.length === 0 && <Text size="sm" className="quiet">No events yet.</Text>}
      <Stack gap={10} component="ul" m={0} p={0} style={{ listStyle: "none" }}>
        {newest?.map((it) => (
          <li key={it.id} style={{ fontSize: 13 }}>
            <div style={{ display: "flex", gap: 12, flexWrap: "wrap" }}>
              <SeverityDot severity={it.severity} />
              <span className="quiet number">{moment(it.time, true)}</span>
            </div>
            <span style={{ overflowWrap: "anywhere" }}>{it.message}</span> <PlaceLink about={it} />
          </li>
        ))}
      </Stack>
    </Panel>
  );
}

import { Button, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { ScrollText } from "lucide-react";
import { useMemo, useState } from "react";
import { events } from "../../api/queries";
import type { SchemaEvent as Event, SchemaSeverity as Severity } from "../../api/schema";
import { moment } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { PlaceLink } from "../place";

const SEVERITIES = {
  info: { color: "gray", label: "Information" },
  warning: { color: "orange", label: "Warning" },
  critical: { color: "red", label: "Critical" },
} as const;

export function SeverityDot({ severity }: { severity: Severity }) {
  return <Dot {...SEVERITIES[severity]} />;
}

const COLUMNS: Column<Event>[] = [
  // Sorted by number, so that events of the same second stay in order.
  { name: "Time", key: (it) => it.id, down: true, cell: (it) => <span className="number quiet">{moment(it.time, true)}</span> },
  { name: "Severity", key: (it) => it.severity, cell: (it) => <SeverityDot severity={it.severity} /> },
  { name: "Event", cell: (it) => <span className="message">{it.message} <PlaceLink about={it} /></span>, main: true },
  { name: "Kind", key: (it) => it.kind, cell: (it) => <span className="quiet">{it.kind}</span>, wide: true },
];

export function EventsPage() {
  const [minimum, setMinimum] = useState<Severity>("info");
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(events(minimum));
  const rows = useMemo(() => data?.pages.flat(), [data]);
  return (
    <Page title="Events">
      {data || !error ? (
        <Panel flush>
          <DataTable
            label="Events"
            noun="event"
            rows={rows}
            columns={COLUMNS}
            cards
            id={(it) => `${it.id}`}
            text={(it) => `${it.message} ${it.kind} ${it.name}`}
            tools={
              <SegmentedControl
                aria-label="Severity"
                value={minimum}
                onChange={(value) => setMinimum(value)}
                data={[
                  { value: "info", label: "All" },
                  { value: "warning", label: "Warnings" },
                  { value: "critical", label: "Critical" },
                ]}
              />
            }
            empty={<Empty icon={ScrollText} title={minimum === "info" ? "No events yet" : "No events of this severity"} text="Events of the array are listed here." action={minimum !== "info" && <Button variant="default" onClick={() => setMinimum("info")}>Show all</Button>} />}
          />
          {hasNextPage && <Older busy={isFetchingNextPage} onClick={() => void fetchNextPage()} />}
        </Panel>
      ) : (
        <ProblemAlert error={error} />
      )}
    </Page>
  );
}

export function Older({ busy, onClick }: { busy: boolean; onClick: () => void }) {
  return (
    <div style={{ padding: 12, textAlign: "center" }}>
      <Button variant="default" loading={busy} onClick={onClick}>
        Load older
      </Button>
    </div>
  );
}

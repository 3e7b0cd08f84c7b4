import { Button, Group, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { BellOff } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { alerts, useChange } from "../../api/queries";
import type { SchemaAlert as Alert, SchemaAlertState as State } from "../../api/schema";
import { moment } from "../../format";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { SeverityDot } from "../events/events";

const SEVERITIES = ["critical", "warning", "info"];

/** What needs attention, the worst first; what needed it, on demand. */
export function AlertsPage() {
  const { data, error } = useQuery(alerts());
  const [past, setPast] = useState(false);
  const change = useChange({
    run: ({ alert, state }: { alert: Alert; state: State }) => answer(api.PATCH("/api/v1/alerts/{id}", { params: { path: { id: alert.id } }, body: { state } })),
    done: (now) => (now.state === "acknowledged" ? "You look after it." : now.state === "closed" ? "The alert is closed." : "Nobody looks after it now."),
  });
  const columns: Column<Alert>[] = [
    { name: "Severity", key: (it) => SEVERITIES.indexOf(it.severity), cell: (it) => <SeverityDot severity={it.severity} /> },
    { name: "What", cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{it.message}</span> },
    { name: "Since", key: (it) => it.opened, cell: (it) => <span className="quiet number">{moment(it.opened)}</span>, wide: true },
    { name: "State", key: (it) => it.state, cell: (it) => <Standing alert={it} /> },
    {
      name: "",
      right: true,
      cell: (alert) =>
        alert.state !== "closed" && (
          <May>
            <Group gap={4} justify="flex-end" wrap="nowrap">
              <Button variant="subtle" size="compact-sm" onClick={() => change.mutate({ alert, state: alert.state === "open" ? "acknowledged" : "open" })}>
                {alert.state === "open" ? "I look after it" : "I don’t"}
              </Button>
              <Button variant="subtle" color="gray" size="compact-sm" onClick={() => change.mutate({ alert, state: "closed" })}>
                Close
              </Button>
            </Group>
          </May>
        ),
    },
  ];
  const rows = data?.filter((it) => past === (it.state === "closed"));
  return (
    <Page title="Alerts" actions={<SegmentedControl aria-label="Which alerts" value={past ? "past" : "now"} onChange={(value) => setPast(value === "past")} data={[{ value: "now", label: "Now" }, { value: "past", label: "Past" }]} />}>
      <ProblemAlert error={change.error ?? error} />
      {(data || !error) && (
        <Panel flush>
          <DataTable
            key={`${past}`}
            label="Alerts"
            noun="alert"
            rows={rows}
            columns={columns}
            id={(it) => `${it.id}`}
            text={(it) => `${it.message} ${it.kind} ${it.name}`}
            empty={<Empty icon={BellOff} title={past ? "No alert is closed yet" : "Nothing needs attention"} text={past ? "What is over is kept here." : "What needs you is told here: space that runs out, drives that fail, hosts on one leg."} />}
          />
        </Panel>
      )}
    </Page>
  );
}

function Standing({ alert: { state, acknowledged_by, closed } }: { alert: Alert }) {
  if (state === "closed") return <span className="quiet number">closed{closed && ` ${moment(closed)}`}</span>;
  return state === "acknowledged" ? <span>{acknowledged_by} looks after it</span> : <b style={{ fontWeight: 500 }}>open</b>;
}

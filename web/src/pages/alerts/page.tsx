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
import { PlaceLink } from "../place";
import { documentation } from "./documentation";
import { Remedy } from "./remedy";

const SEVERITIES = ["critical", "warning", "info"];

/** Active alerts, the most severe first; closed alerts on demand. */
export function AlertsPage() {
  const { data, error } = useQuery(alerts());
  const [past, setPast] = useState(false);
  const change = useChange({
    run: ({ alert, state }: { alert: Alert; state: State }) => answer(api.PATCH("/api/v1/alerts/{id}", { params: { path: { id: alert.id } }, body: { state } })),
    done: (now) => (now.state === "acknowledged" ? "The alert is acknowledged." : now.state === "closed" ? "The alert is closed." : "The acknowledgement is withdrawn."),
  });
  const columns: Column<Alert>[] = [
    { name: "Severity", key: (it) => SEVERITIES.indexOf(it.severity), cell: (it) => <SeverityDot severity={it.severity} /> },
    { name: "Alert", cell: (it) => <What alert={it} />, main: true },
    { name: "Since", key: (it) => it.opened, cell: (it) => <span className="quiet number">{moment(it.opened)}</span>, wide: true },
    { name: "State", key: (it) => it.state, cell: (it) => <AlertState alert={it} /> },
    {
      name: "",
      right: true,
      cell: (alert) =>
        alert.state !== "closed" && (
          <May>
            <Group gap={4} justify="flex-end" className="card-actions">
              <Remedy alert={alert} />
              <Button variant="subtle" size="compact-sm" onClick={() => change.mutate({ alert, state: alert.state === "open" ? "acknowledged" : "open" })}>
                {alert.state === "open" ? "Acknowledge" : "Withdraw"}
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
    <Page title="Alerts" actions={<SegmentedControl aria-label="Alert state" value={past ? "past" : "now"} onChange={(value) => setPast(value === "past")} data={[{ value: "now", label: "Active" }, { value: "past", label: "Closed" }]} />}>
      <ProblemAlert error={change.error ?? error} />
      {(data || !error) && (
        <Panel flush>
          <DataTable
            key={`${past}`}
            label="Alerts"
            noun="alert"
            rows={rows}
            columns={columns}
            cards
            id={(it) => `${it.id}`}
            text={(it) => `${it.message} ${it.kind} ${it.name}`}
            empty={<Empty icon={BellOff} title={past ? "No closed alerts" : "No active alerts"} text={past ? "Closed alerts are kept here." : "Conditions that need attention are listed here, such as low capacity, failed drives and lost paths."} />}
          />
        </Panel>
      )}
    </Page>
  );
}

/** The condition with its remedy, the object, and the page of the documentation. */
function What({ alert }: { alert: Alert }) {
  return (
    <div className="message">
      <div>{alert.message.charAt(0).toUpperCase() + alert.message.slice(1)}</div>
      <Group gap="xs" mt={2} fz="xs">
        <PlaceLink about={alert} />
        <span className="quiet">
          Documentation: <code>operating/{documentation(alert.kind)}</code>
        </span>
      </Group>
    </div>
  );
}

function AlertState({ alert: { state, acknowledged_by, closed } }: { alert: Alert }) {
  if (state === "closed") return <span className="quiet number">closed{closed && ` ${moment(closed)}`}</span>;
  return state === "acknowledged" ? <span>acknowledged by {acknowledged_by}</span> : <b style={{ fontWeight: 500 }}>open</b>;
}

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link2 } from "lucide-react";
import { useState } from "react";
import { hosts } from "../../api/queries";
import type { SchemaConnection as Connection } from "../../api/schema";
import { accessorName, plural } from "../../format";
import { Dot } from "../../parts/dot";
import { Disconnect } from "../../parts/disconnect";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { sessionCount } from "../hosts/sessions";
import { DisconnectVolume } from "./forms";

/** The connections of a volume or a snapshot. */
export function Connections({ of, onConnect }: { of: { connections: Connection[] }; onConnect: () => void }) {
  const [leaving, setLeaving] = useState<Connection>();
  const known = useQuery({ ...hosts(), enabled: of.connections.length > 0 }).data;
  const sessions = ({ host, host_group }: Connection): number | undefined =>
    known?.filter((it) => (host_group ? it.host_group === host_group : it.name === host)).reduce((sum, it) => sum + sessionCount(it), 0);
  const columns: Column<Connection>[] = [
    { name: "Host", key: accessorName, cell: (it) => <Accessor connection={it} /> },
    { name: "Sessions", key: (it) => sessions(it) ?? -1, cell: (it) => <Sessions count={sessions(it)} /> },
    { name: "LUN", key: (it) => it.lun, cell: (it) => it.lun, right: true },
    { name: "Access", key: (it) => Number(it.read_only), cell: (it) => (it.read_only ? "read-only" : "read and write"), wide: true },
    {
      name: "",
      cell: (it) => <Disconnect onClick={() => setLeaving(it)} />,
      right: true,
    },
  ];
  return (
    <Panel title="Connections" flush>
      <DataTable
        label="Connections"
        noun="host"
        rows={of.connections}
        columns={columns}
        id={accessorName}
        empty={
          <Empty
            icon={Link2}
            title="Not connected"
            text="Connect it to a host. The host finds it as a new disk after a rescan."
            action={
              <May>
                <Button onClick={onConnect}>Connect a host</Button>
              </May>
            }
          />
        }
      />
      {leaving !== undefined && <DisconnectVolume connection={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

function Sessions({ count }: { count: number | undefined }) {
  if (count === undefined) return null;
  return count > 0 ? <Dot color="teal" label={plural(count, "session")} /> : <Dot color="gray" label="not logged in" />;
}

function Accessor({ connection: { host, host_group } }: { connection: Connection }) {
  if (host_group) {
    return (
      <>
        <span className="quiet">group </span>
        <RowLink place="host-groups" name={host_group} />
      </>
    );
  }
  return <RowLink place="hosts" name={host ?? ""} />;
}

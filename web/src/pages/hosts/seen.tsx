import { Database } from "lucide-react";
import { useState, type ReactNode } from "react";
import type { SchemaConnection as Connection } from "../../api/schema";
import { accessorName } from "../../format";
import { Disconnect } from "../../parts/disconnect";
import { Empty } from "../../parts/empty";
import { Panel } from "../../parts/panel";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { DisconnectVolume } from "../volumes/forms";

type Props = {
  /** The host or host group. */
  by: "host" | "group";
  connections: Connection[];
  /** The text of an empty list. */
  empty: { title: string; text: string; action?: ReactNode };
};

/**
 * The volumes connected to a host or host group. A volume of the host's group can't be disconnected from the host
 * alone.
 */
export function SeenVolumes({ by, connections, empty }: Props) {
  const [leaving, setLeaving] = useState<Connection>();
  const columns: Column<Connection>[] = [
    { name: "LUN", key: (it) => it.lun, cell: (it) => <span className="number">{it.lun}</span> },
    { name: "Volume", key: (it) => it.volume, cell: (it) => <RowLink place="volumes" name={it.volume} /> },
    {
      name: "",
      cell: (it) =>
        by === "host" && it.host_group ? (
          <span className="quiet">by {accessorName(it)}</span>
        ) : (
          <Disconnect onClick={() => setLeaving(it)} />
        ),
      right: true,
    },
  ];
  return (
    <Panel title="Volumes" flush>
      <DataTable
        label={`Volumes of the ${by}`}
        noun="volume"
        rows={connections}
        columns={columns}
        id={(it) => it.volume}
        pageSize={10}
        empty={<Empty icon={Database} {...empty} />}
      />
      {leaving !== undefined && <DisconnectVolume connection={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

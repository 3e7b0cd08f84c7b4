import { Button } from "@mantine/core";
import type { SchemaRefusedLogin as RefusedLogin } from "../../api/schema";
import { count, moment } from "../../format";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { DataTable, type Column } from "../../parts/table";

type Props = {
  title: string;
  refused: RefusedLogin[];
  /** Creates a host with an unknown initiator. */
  onAdd?: (initiator: string) => void;
};

/** The refused log-ins with their causes, the last one first; nothing if there are none. */
export function RefusedLogins({ title, refused, onAdd }: Props) {
  if (refused.length === 0) return null;
  const columns: Column<RefusedLogin>[] = [
    { name: "Last", key: (it) => it.last, down: true, cell: (it) => <span className="number">{moment(it.last)}</span> },
    { name: "Reason", key: (it) => it.reason, cell: (it) => <span className="message">{it.reason}</span>, main: true },
    { name: "Initiator", key: (it) => it.initiator ?? "", cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{it.initiator ?? "no name given"}</span> },
    { name: "Address", key: (it) => it.address, cell: (it) => <span className="number">{it.address}</span>, wide: true },
    { name: "Portal", key: (it) => it.portal, cell: (it) => count(it.portal), right: true, wide: true },
    { name: "Times", key: (it) => it.count, cell: (it) => count(it.count), right: true },
  ];
  if (onAdd) {
    columns.push({
      name: "",
      cell: ({ initiator, cause }) =>
        initiator &&
        cause === "unknown-initiator" && (
          <May>
            <Button size="compact-xs" variant="default" onClick={() => onAdd(initiator)}>
              Add host
            </Button>
          </May>
        ),
      right: true,
    });
  }
  return (
    <Panel title={title} flush>
      <DataTable label={title} noun="refused log-in" rows={refused} columns={columns} cards id={(it) => `${it.initiator ?? ""} ${it.address} ${it.cause}`} pageSize={10} empty={null} />
    </Panel>
  );
}

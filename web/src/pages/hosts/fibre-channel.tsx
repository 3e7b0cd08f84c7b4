/** The Fibre Channel sessions of a host: its ports at each target port, the devices of its volumes, and lossy links. */
import { useQuery } from "@tanstack/react-query";
import { Cable } from "lucide-react";
import { fibreChannelSessions } from "../../api/queries";
import type { SchemaFibreChannelLink as Link, SchemaFibreChannelSession as Session, SchemaHost as Host } from "../../api/schema";
import { count, plural } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";

/** The error counters of a target port's link, as text; `null` without errors. */
export function lossText(link: Link): string | null {
  const kinds: [number | null | undefined, string][] = [
    [link.link_failures, "link failure"],
    [link.sync_losses, "loss of synchronization"],
    [link.signal_losses, "loss of signal"],
    [link.invalid_crcs, "wrong CRC"],
  ];
  const lost = kinds.filter(([number]) => number).map(([number, kind]) => `${kind}: ${count(number ?? 0)}`);
  return lost.length > 0 ? lost.join(", ") : null;
}

const sum = (session: Session, of: (device: Session["devices"][number]) => number) => session.devices.reduce((all, it) => all + of(it), 0);

const COLUMNS: Column<Session>[] = [
  { name: "Initiator port", key: (it) => it.initiator, cell: (it) => <span className="number">{it.initiator}</span> },
  { name: "Target port", key: (it) => it.target_port, cell: (it) => <span className="number">{it.target_port}</span> },
  { name: "Session", key: (it) => Number(it.logged_in), cell: (it) => (it.logged_in ? <Dot color="teal" label="logged in" /> : <Dot color="gray" label="no session" />) },
  { name: "Devices", key: (it) => it.devices.length, cell: (it) => <Devices session={it} /> },
  { name: "Aborted", key: (it) => sum(it, (device) => device.aborted), cell: (it) => count(sum(it, (device) => device.aborted)), right: true, wide: true },
  { name: "Link", key: (it) => it.link?.state ?? "", cell: (it) => <LinkState link={it.link} />, wide: true },
];

function Devices({ session }: { session: Session }) {
  const idle = session.devices.filter((it) => !it.served).length;
  const volumes = session.devices.map((it) => `LUN ${it.lun}: ${it.volume ?? "a deleted volume"}, ${plural(it.commands, "command")}, ${it.aborted} aborted, ${it.refused} refused`);
  return (
    <span title={volumes.join("\n")}>
      {plural(session.devices.length, "device")}
      {idle > 0 && <Dot color="orange" label={`${idle} not served`} />}
    </span>
  );
}

function LinkState({ link }: { link: Session["link"] }) {
  if (!link) return <span className="quiet">none</span>;
  const loss = lossText(link);
  const state = link.speed ? `${link.state}, ${link.speed}` : link.state;
  return <Dot color={link.state !== "Online" ? "red" : loss ? "orange" : "teal"} label={loss ? `${state}, ${loss}` : state} />;
}

export function FibreChannelPanel({ host }: { host: Host }) {
  const { data, error } = useQuery({ ...fibreChannelSessions(host.name), enabled: host.wwpns.length > 0 });
  if (host.wwpns.length === 0) return null;
  return (
    <Panel title="Fibre Channel sessions" flush>
      <ProblemAlert error={error} />
      <DataTable
        label="Fibre Channel sessions"
        noun="session"
        rows={data}
        columns={COLUMNS}
        id={(it) => `${it.initiator} ${it.target_port}`}
        pageSize={20}
        empty={<Empty icon={Cable} title="No devices" text={`Devices for ${host.name} are made when it is connected to a volume and the array has Fibre Channel ports (option fc of the start).`} />}
      />
    </Panel>
  );
}

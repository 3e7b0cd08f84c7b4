import { useQuery } from "@tanstack/react-query";
import { Server } from "lucide-react";
import { useState } from "react";
import { hosts, refusedLogins } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { count } from "../../format";
import { LABEL_FILTER } from "../../parts/labels";
import { RowLink } from "../../parts/row-link";
import type { Column, Filter } from "../../parts/table";
import { useOpened } from "../../parts/use-opened";
import { CreateHost } from "./forms";
import { RefusedLogins } from "./refused";
import { sessionCount } from "./sessions";
import { HostState } from "./state";
import { NounList } from "../../parts/noun-list";

const COLUMNS: Column<Host>[] = [
  {
    name: "Name",
    key: (host) => host.name,
    cell: (host) => <RowLink place="hosts" name={host.name} />,
  },
  { name: "Sessions", key: (host) => sessionCount(host), cell: (host) => <HostState host={host} /> },
  { name: "Volumes", key: (host) => host.connections.length, cell: (host) => count(host.connections.length), right: true },
  { name: "Host group", key: (host) => host.host_group ?? "", cell: ({ host_group }) => (host_group ? <RowLink place="host-groups" name={host_group} /> : <span className="quiet">–</span>), wide: true },
  { name: "Initiator", key: (host) => namesOf(host)[0] ?? "", cell: (host) => <Initiators host={host} />, wide: true },
  { name: "CHAP", key: (host) => host.chap_user ?? "", cell: (host) => <Chap host={host} />, wide: true },
];

/** The host's iSCSI names, then its NQNs. */
function namesOf(host: Host): string[] {
  return [...host.initiators, ...host.nqns, ...host.wwpns];
}

function Initiators({ host }: { host: Host }) {
  const names = namesOf(host);
  const more = names.length - 1;
  return (
    <span style={{ display: "inline-block", minWidth: 190, overflowWrap: "anywhere" }} title={names.join("\n")}>
      {names[0]}
      {more > 0 && <span className="quiet"> and {more} more</span>}
    </span>
  );
}

function Chap({ host }: { host: Host }) {
  if (!host.chap_user) return <span className="quiet">none</span>;
  return host.mutual_user ? "mutual" : "one way";
}

const FILTERS: Filter<Host>[] = [
  { label: "Host group", of: (host) => (host.host_group ? [host.host_group] : []) },
  { label: "Log-in", of: (host) => [sessionCount(host) > 0 ? "logged in" : "not logged in"] },
  LABEL_FILTER,
];

export function HostsPage() {
  const refused = useQuery(refusedLogins());
  const create = useOpened("new");
  const [initiator, setInitiator] = useState("");
  const add = (name: string) => {
    setInitiator(name);
    create.open();
  };
  return (
    <NounList
      title="Hosts"
      noun="host"
      list={useQuery(hosts())}
      columns={COLUMNS}
      id={(host) => host.name}
      text={(host) => `${host.name} ${namesOf(host).join(" ")} ${host.connections.map((it) => it.volume).join(" ")}`}
      filters={FILTERS}
      chooser
      create={{ label: "Add host", onClick: () => add("") }}
      empty={{ icon: Server, title: "No hosts yet", text: "A host is a server that uses volumes. Only hosts with known iSCSI initiator names can log in." }}
    >
      <RefusedLogins title="Refused log-ins of unknown initiators" refused={(refused.data ?? []).filter((it) => it.host === null)} onAdd={add} />
      <CreateHost key={initiator} initiator={initiator} opened={create.opened} onClose={create.close} />
    </NounList>
  );
}

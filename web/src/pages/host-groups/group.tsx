import { Button, SimpleGrid, Skeleton, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Database, Link2, Pencil, Server, Trash2, Unlink } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { hostGroup } from "../../api/queries";
import type { SchemaConnection as Connection } from "../../api/schema";
import { Empty } from "../../parts/empty";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { DisconnectVolume } from "../volumes/forms";
import { ConnectToGroup, DeleteHostGroup, HostGroupForm } from "./forms";

type Task = "change" | "connect" | "delete";

export function HostGroupPage({ name }: { name: string }) {
  const { data, error } = useQuery(hostGroup(name));
  const [task, setTask] = useState<Task>();
  const window = (of: Task) => ({ opened: task === of, onClose: () => setTask(undefined) });
  return (
    <Page
      title={name}
      above={{ label: "Host groups", path: "/host-groups" }}
      actions={
        data && (
          <>
            <Button leftSection={<Link2 size={15} aria-hidden />} onClick={() => setTask("connect")}>
              Connect a volume
            </Button>
            <Button variant="default" leftSection={<Pencil size={15} aria-hidden />} onClick={() => setTask("change")}>
              Change
            </Button>
            <Button variant="default" leftSection={<Trash2 size={15} aria-hidden />} onClick={() => setTask("delete")}>
              Delete
            </Button>
          </>
        )
      }
    >
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={180} />}
      {data && (
        <Stack gap="md">
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Panel title="Hosts" flush>
              <DataTable label="Hosts of the group" noun="host" rows={data.hosts} columns={HOSTS} id={(it) => it} pageSize={10} empty={<Empty icon={Server} title="No host is in it" text="Choose hosts with “Change”." />} />
            </Panel>
            <Seen connections={data.connections} />
          </SimpleGrid>
          <HostGroupForm key={`${data.name} ${data.hosts.join(" ")}`} group={data} {...window("change")} />
          <ConnectToGroup group={data} {...window("connect")} />
          <DeleteHostGroup group={data} {...window("delete")} />
        </Stack>
      )}
    </Page>
  );
}

const HOSTS: Column<string>[] = [
  {
    name: "Name",
    key: (it) => it,
    cell: (it) => (
      <Link className="row-link" href={`/hosts/${encodeURIComponent(it)}`}>
        {it}
      </Link>
    ),
  },
];

function Seen({ connections }: { connections: Connection[] }) {
  const [leaving, setLeaving] = useState<Connection>();
  const columns: Column<Connection>[] = [
    { name: "LUN", key: (it) => it.lun, cell: (it) => <span className="number">{it.lun}</span> },
    {
      name: "Volume",
      key: (it) => it.volume,
      cell: (it) => (
        <Link className="row-link" href={`/volumes/${encodeURIComponent(it.volume)}`}>
          {it.volume}
        </Link>
      ),
    },
    {
      name: "",
      cell: (it) => (
        <Button variant="subtle" color="gray" size="compact-sm" leftSection={<Unlink size={14} aria-hidden />} onClick={() => setLeaving(it)}>
          Disconnect
        </Button>
      ),
      right: true,
    },
  ];
  return (
    <Panel title="Volumes" flush>
      <DataTable label="Volumes of the group" noun="volume" rows={connections} columns={columns} id={(it) => it.volume} pageSize={10} empty={<Empty icon={Database} title="They see no volume" text="A volume that is connected to the group is seen by all of its hosts under the same LUN." />} />
      {leaving !== undefined && <DisconnectVolume connection={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

import { Button, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link2, Pencil, Server, Trash2 } from "lucide-react";
import { answer, api } from "../../api/client";
import { hostGroup } from "../../api/queries";
import { Empty } from "../../parts/empty";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { useTask } from "../../parts/use-task";
import { SeenVolumes } from "../hosts/seen";
import { ConnectToGroup, DeleteHostGroup, HostGroupForm } from "./forms";

type Task = "change" | "connect" | "delete";

export function HostGroupPage({ name }: { name: string }) {
  const object = useQuery(hostGroup(name));
  const { start, window } = useTask<Task>();
  return (
    <NounPage
      name={name}
      object={object}
      above={{ label: "Host groups", path: "/host-groups" }}
      actions={() => (
        <May>
          <Button leftSection={<Link2 size={15} aria-hidden />} onClick={() => start("connect")}>
            Connect a volume
          </Button>
          <Button variant="default" leftSection={<Pencil size={15} aria-hidden />} onClick={() => start("change")}>
            Change
          </Button>
          <Button variant="default" leftSection={<Trash2 size={15} aria-hidden />} onClick={() => start("delete")}>
            Delete
          </Button>
        </May>
      )}
    >
      {(data) => (
        <>
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Panel title="Hosts" flush>
              <DataTable label="Hosts of the group" noun="host" rows={data.hosts} columns={HOSTS} id={(it) => it} pageSize={10} empty={<Empty icon={Server} title="No hosts" text="Choose hosts with “Change”." />} />
            </Panel>
            <SeenVolumes
              by="group"
              connections={data.connections}
              empty={{ title: "No volumes", text: "A volume connected to the host group is presented to all of its hosts with the same LUN." }}
            />
            <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/host-groups/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          </SimpleGrid>
          <HostGroupForm key={`${data.name} ${data.hosts.join(" ")}`} group={data} {...window("change")} />
          <ConnectToGroup group={data} {...window("connect")} />
          <DeleteHostGroup group={data} {...window("delete")} />
        </>
      )}
    </NounPage>
  );
}

const HOSTS: Column<string>[] = [
  {
    name: "Name",
    key: (it) => it,
    cell: (it) => <RowLink place="hosts" name={it} />,
  },
];

import { Button, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Camera, Database, ListChecks, Pencil, Trash2 } from "lucide-react";
import { answer, api } from "../../api/client";
import { group, volumesOf } from "../../api/queries";
import type { SchemaGroup as Group, SchemaVolume as Volume } from "../../api/schema";
import { bytes, moment } from "../../format";
import { Empty } from "../../parts/empty";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { RowLink } from "../../parts/row-link";
import { DataTable, type Column } from "../../parts/table";
import { useTask } from "../../parts/use-task";
import { LimitsPanel } from "../limits";
import { UsagePanel } from "../usage";
import { TakeSnapshot } from "../snapshots/forms";
import { ChooseVolumes, DeleteGroup, GroupForm } from "./forms";
import { QuotaBar } from "./quota";

type Task = "change" | "volumes" | "snapshot" | "delete";

export function GroupPage({ name }: { name: string }) {
  const object = useQuery(group(name));
  const { start, window } = useTask<Task>();
  return (
    <NounPage
      name={name}
      object={object}
      above={{ label: "Volume groups", path: "/groups" }}
      actions={(data) => (
        <May>
          <Button leftSection={<Camera size={15} aria-hidden />} disabled={data.volumes.length === 0} onClick={() => start("snapshot")}>
            Take snapshot
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
          <Facts group={data} />
          <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
            <LimitsPanel kind="group" thing={data} />
            <UsagePanel kind="group" name={data.name} />
            <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/groups/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          </SimpleGrid>
          <Members group={data} onChoose={() => start("volumes")} />
          <GroupForm key={`${data.name} ${data.soft_quota} ${data.hard_quota}`} group={data} {...window("change")} />
          <ChooseVolumes key={data.volumes.join(" ")} group={data} {...window("volumes")} />
          <TakeSnapshot group={data.name} {...window("snapshot")} />
          <DeleteGroup group={data} {...window("delete")} />
        </>
      )}
    </NounPage>
  );
}

function Facts({ group }: { group: Group }) {
  const quota = (value: number | null | undefined) => (value == null ? "none" : bytes(value));
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Panel title="Space">
        <dl className="facts">
          <dt>Provisioned</dt>
          <dd className="number">{bytes(group.provisioned)}</dd>
          <dt>Mapped</dt>
          <dd className="number">{bytes(group.mapped)}</dd>
          <dt>Created</dt>
          <dd className="number">{moment(group.created)}</dd>
        </dl>
      </Panel>
      <Panel title="Quota">
        <dl className="facts">
          <dt>Soft</dt>
          <dd className="number">{quota(group.soft_quota)}</dd>
          <dt>Hard</dt>
          <dd className="number">{quota(group.hard_quota)}</dd>
          <dt>In use</dt>
          <dd>
            <QuotaBar group={group} width={120} />
          </dd>
        </dl>
      </Panel>
    </SimpleGrid>
  );
}

const COLUMNS: Column<Volume>[] = [
  {
    name: "Name",
    key: (it) => it.name,
    cell: (it) => <RowLink place="volumes" name={it.name} />,
  },
  { name: "Size", key: (it) => it.size, cell: (it) => bytes(it.size), right: true },
  { name: "Mapped", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true },
];

function Members({ group, onChoose }: { group: Group; onChoose: () => void }) {
  const { data: rows } = useQuery(volumesOf(group.name));
  const button = (
    <May>
      <Button variant="default" size="compact-sm" leftSection={<ListChecks size={14} aria-hidden />} onClick={onChoose}>
        Choose volumes
      </Button>
    </May>
  );
  return (
    <Panel title="Volumes" flush actions={group.volumes.length > 0 ? button : undefined}>
      <DataTable
        label="Volumes of the group"
        noun="volume"
        rows={rows}
        columns={COLUMNS}
        id={(it) => it.id}
        empty={<Empty icon={Database} title="No volumes" text="Volumes of a group share snapshots, quotas and QoS limits." action={button} />}
      />
    </Panel>
  );
}

import { Button, Menu, SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, Copy, Link2, Pencil, Trash2, Undo2 } from "lucide-react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import { snapshot } from "../../api/queries";
import type { SchemaSnapshot as Snapshot } from "../../api/schema";
import { bytes, moment } from "../../format";
import { CopyText } from "../../parts/copy";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { useTask } from "../../parts/use-task";
import { ConnectVolume } from "../volumes/forms";
import { Connections } from "../volumes/connections";
import { Kept } from "./columns";
import { ChangeSnapshot, CloneSnapshot, DeleteSnapshot, RestoreVolume } from "./forms";

type Task = "restore" | "clone" | "connect" | "change" | "delete";

export function SnapshotPage({ name }: { name: string }) {
  const object = useQuery(snapshot(name));
  const { start, window } = useTask<Task>();
  return (
    <NounPage name={name} object={object} above={{ label: "Snapshots", path: "/snapshots" }} actions={(data) => <Actions snapshot={data} onChoose={start} />}>
      {(data) => (
        <>
          <Facts snapshot={data} />
          <Connections of={data} onConnect={() => start("connect")} />
          <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/snapshots/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          {data.source && <RestoreVolume snapshot={data} {...window("restore")} />}
          <CloneSnapshot snapshot={data} {...window("clone")} />
          <ConnectVolume volume={data} {...window("connect")} />
          <ChangeSnapshot key={`${data.name} ${data.writable} ${data.retain_until}`} snapshot={data} {...window("change")} />
          <DeleteSnapshot snapshot={data} {...window("delete")} />
        </>
      )}
    </NounPage>
  );
}

function Actions({ snapshot, onChoose }: { snapshot: Snapshot; onChoose: (task: Task) => void }) {
  return (
    <May>
      {snapshot.source && (
        <Button leftSection={<Undo2 size={16} aria-hidden />} onClick={() => onChoose("restore")}>
          Restore
        </Button>
      )}
      <Button variant="default" leftSection={<Copy size={15} aria-hidden />} onClick={() => onChoose("clone")}>
        Clone
      </Button>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" rightSection={<ChevronDown size={15} aria-hidden />}>
            More
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<Link2 size={15} />} onClick={() => onChoose("connect")}>
            Connect
          </Menu.Item>
          <Menu.Item leftSection={<Pencil size={15} />} onClick={() => onChoose("change")}>
            Change
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item color="red" leftSection={<Trash2 size={15} />} onClick={() => onChoose("delete")}>
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </May>
  );
}

function Facts({ snapshot }: { snapshot: Snapshot }) {
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Panel title="Content">
        <dl className="facts">
          <dt>Source</dt>
          <dd>
            {snapshot.source ? (
              <Link className="plain" href={`/volumes/${encodeURIComponent(snapshot.source)}`}>
                {snapshot.source}
              </Link>
            ) : (
              "a deleted volume"
            )}
          </dd>
          <dt>Taken</dt>
          <dd className="number">{moment(snapshot.created, true)}</dd>
          <dt>Size</dt>
          <dd className="number">{bytes(snapshot.size)}</dd>
          <dt>Mapped</dt>
          <dd className="number">{bytes(snapshot.mapped)}</dd>
        </dl>
      </Panel>
      <Panel title="Identity">
        <dl className="facts">
          <dt>State</dt>
          <dd>
            <Kept snapshot={snapshot} />
          </dd>
          <dt>Taken together</dt>
          <dd>as {snapshot.set}</dd>
          <dt>NAA identifier</dt>
          <dd>
            {snapshot.naa} <CopyText text={snapshot.naa.replace("naa.", "")} label="Copy the identifier" />
          </dd>
        </dl>
      </Panel>
    </SimpleGrid>
  );
}

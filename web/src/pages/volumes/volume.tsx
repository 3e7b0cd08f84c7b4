import { Button, Group, Menu, Progress, SimpleGrid, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Camera, ChevronDown, Copy, Expand, Link2, Pencil, Trash2 } from "lucide-react";
import { Link } from "wouter";
import { answer, api } from "../../api/client";
import { volume } from "../../api/queries";
import type { SchemaVolume as Volume } from "../../api/schema";
import { bytes, moment, percent } from "../../format";
import { CopyText } from "../../parts/copy";
import { Empty } from "../../parts/empty";
import { LabelsPanel } from "../../parts/labels";
import { May } from "../../parts/may";
import { NounPage } from "../../parts/noun-page";
import { Panel } from "../../parts/panel";
import { DataTable } from "../../parts/table";
import { useTask } from "../../parts/use-task";
import { NowPanel } from "../dashboard/now";
import { LimitsPanel } from "../limits";
import { UsagePanel } from "../usage";
import { OF_ONE } from "../snapshots/columns";
import { TakeSnapshot, useSnapshotsOf } from "../snapshots/forms";
import { Connections } from "./connections";
import { ChangeVolume, CloneVolume, ConnectVolume, ResizeVolume } from "./forms";
import { DeleteVolume } from "./delete";
import { ProtectionPanel } from "./protection";

type Task = "resize" | "clone" | "connect" | "snapshot" | "change" | "delete";

export function VolumePage({ name }: { name: string }) {
  const object = useQuery(volume(name));
  const { start, window } = useTask<Task>();
  return (
    <NounPage name={name} object={object} above={{ label: "Volumes", path: "/volumes" }} actions={() => <Actions onChoose={start} />}>
      {(data) => (
        <>
          <NowPanel scope={{ kind: "volume", name: data.name }} />
          <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
            <SpaceOf volume={data} />
            <ProtectionPanel volume={data} />
          </SimpleGrid>
          <Connections of={data} onConnect={() => start("connect")} />
          <Snapshots volume={data} onTake={() => start("snapshot")} />
          <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
            <LimitsPanel kind="volume" thing={data} />
            <Identity volume={data} />
            <LabelsPanel of={data.name} labels={data.labels} save={(labels) => answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name: data.name } }, body: { labels } }))} />
          </SimpleGrid>
          <TakeSnapshot volume={data.name} {...window("snapshot")} />
          <ChangeVolume key={`change-${data.name} ${data.group} ${data.mixed_transports}`} volume={data} {...window("change")} />
          <ResizeVolume key={`resize-${data.size}`} volume={data} {...window("resize")} />
          <CloneVolume volume={data} {...window("clone")} />
          <ConnectVolume volume={data} {...window("connect")} />
          <DeleteVolume volume={data} {...window("delete")} />
        </>
      )}
    </NounPage>
  );
}

function Actions({ onChoose }: { onChoose: (task: Task) => void }) {
  return (
    <May>
      <Button leftSection={<Link2 size={16} aria-hidden />} onClick={() => onChoose("connect")}>
        Connect
      </Button>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" rightSection={<ChevronDown size={15} aria-hidden />}>
            More
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<Expand size={15} />} onClick={() => onChoose("resize")}>
            Resize
          </Menu.Item>
          <Menu.Item leftSection={<Camera size={15} />} onClick={() => onChoose("snapshot")}>
            Take snapshot
          </Menu.Item>
          <Menu.Item leftSection={<Copy size={15} />} onClick={() => onChoose("clone")}>
            Clone
          </Menu.Item>
          <Menu.Item leftSection={<Pencil size={15} />} onClick={() => onChoose("change")}>
            Name, group and protocols
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

export function SpaceOf({ volume }: { volume: Volume }) {
  const share = volume.mapped / volume.size;
  return (
    <Stack gap="md">
      <Panel title="Space">
        <Group justify="space-between" mb={6}>
          <Text size="sm" className="number">
            <b>{bytes(volume.mapped)}</b> <span className="quiet">mapped of {bytes(volume.size)}</span>
          </Text>
          <Text size="sm" className="quiet number">
            {percent(share)}
          </Text>
        </Group>
        <Progress value={share * 100} size={10} color="slate" aria-label="Mapped share of the size" />
        <Text size="xs" className="quiet" mt={10}>
          Mapped: data written and not unmapped by hosts, before deduplication and compression.
        </Text>
      </Panel>
      <UsagePanel kind="volume" name={volume.name} />
    </Stack>
  );
}

function Identity({ volume }: { volume: Volume }) {
  return (
    <Panel title="Identity">
      <dl className="facts">
        <dt>NAA identifier</dt>
        <dd>
          {volume.naa} <CopyText text={volume.naa.replace("naa.", "")} label="Copy the identifier" />
        </dd>
        {volume.source_id && (
          <>
            <dt>Clone of</dt>
            <dd>{volume.source ?? <span className="quiet">deleted</span>}</dd>
          </>
        )}
        <dt>ID</dt>
        <dd>
          {volume.id} <CopyText text={volume.id} label="Copy the ID" />
        </dd>
        <dt>Group</dt>
        <dd>
          {volume.group ? (
            <Link className="plain" href={`/groups/${encodeURIComponent(volume.group)}`}>
              {volume.group}
            </Link>
          ) : (
            <span className="quiet">none</span>
          )}
        </dd>
        <dt>Block size</dt>
        <dd className="number">{bytes(volume.block_size)}</dd>
        <dt>Created</dt>
        <dd className="number">{moment(volume.created)}</dd>
      </dl>
    </Panel>
  );
}

/** The snapshots of the volume. */
function Snapshots({ volume, onTake }: { volume: Volume; onTake: () => void }) {
  const rows = useSnapshotsOf(volume.name);
  const button = (
    <May>
      <Button variant="default" size="compact-sm" leftSection={<Camera size={14} aria-hidden />} onClick={onTake}>
        Take snapshot
      </Button>
    </May>
  );
  return (
    <Panel title="Snapshots" flush actions={rows?.length ? button : undefined}>
      <DataTable
        label="Snapshots"
        noun="snapshot"
        rows={rows}
        columns={OF_ONE}
        id={(it) => it.id}
        pageSize={10}
        empty={<Empty icon={Camera} title="No snapshots yet" text="A snapshot preserves the current contents of the volume. It takes space only for data that is overwritten later." action={button} />}
      />
    </Panel>
  );
}

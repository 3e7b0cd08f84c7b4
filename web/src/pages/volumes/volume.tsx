import { Button, Group, Menu, Progress, SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, Copy, Expand, Link2, Trash2, Unlink } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { volume } from "../../api/queries";
import type { SchemaConnection as Connection, SchemaVolume as Volume } from "../../api/schema";
import { bytes, moment, percent, seer } from "../../format";
import { CopyText } from "../../parts/copy";
import { Empty } from "../../parts/empty";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { CloneVolume, ConnectVolume, DeleteVolume, DisconnectVolume, ResizeVolume } from "./forms";

type Task = "resize" | "clone" | "connect" | "delete";

export function VolumePage({ name }: { name: string }) {
  const { data, error } = useQuery(volume(name));
  const [task, setTask] = useState<Task>();
  const window = (of: Task) => ({ opened: task === of, onClose: () => setTask(undefined) });
  return (
    <Page title={name} above={{ label: "Volumes", path: "/volumes" }} actions={data && <Actions onChoose={setTask} />}>
      <ProblemAlert error={error} />
      {!data && !error && <Skeleton height={180} />}
      {data && (
        <Stack gap="md">
          <Facts volume={data} />
          <Connections volume={data} onConnect={() => setTask("connect")} />
          <ResizeVolume key={`resize-${data.size}`} volume={data} {...window("resize")} />
          <CloneVolume volume={data} {...window("clone")} />
          <ConnectVolume volume={data} {...window("connect")} />
          <DeleteVolume volume={data} {...window("delete")} />
        </Stack>
      )}
    </Page>
  );
}

function Actions({ onChoose }: { onChoose: (task: Task) => void }) {
  return (
    <>
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
          <Menu.Item leftSection={<Copy size={15} />} onClick={() => onChoose("clone")}>
            Clone
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item color="red" leftSection={<Trash2 size={15} />} onClick={() => onChoose("delete")}>
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

function Facts({ volume }: { volume: Volume }) {
  const share = volume.mapped / volume.size;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Panel title="Space">
        <Group justify="space-between" mb={6}>
          <Text size="sm" className="number">
            <b>{bytes(volume.mapped)}</b> <span className="quiet">mapped of {bytes(volume.size)}</span>
          </Text>
          <Text size="sm" className="quiet number">
            {percent(share)}
          </Text>
        </Group>
        <Progress value={share * 100} size={10} color="slate" aria-label="Share of the size that hosts wrote" />
        <Text size="xs" className="quiet" mt={10}>
          Mapped is what hosts wrote and did not give back, before deduplication and compression.
        </Text>
      </Panel>
      <Panel title="Identity">
        <dl className="facts">
          <dt>Hosts know it as</dt>
          <dd>
            {volume.naa} <CopyText text={volume.naa.replace("naa.", "")} label="Copy the identifier" />
          </dd>
          <dt>Block size</dt>
          <dd className="number">{bytes(volume.block_size)}</dd>
          <dt>Created</dt>
          <dd className="number">{moment(volume.created)}</dd>
        </dl>
      </Panel>
    </SimpleGrid>
  );
}

function Connections({ volume, onConnect }: { volume: Volume; onConnect: () => void }) {
  const [leaving, setLeaving] = useState<Connection>();
  const columns: Column<Connection>[] = [
    {
      name: "Host",
      key: seer,
      cell: (it) =>
        it.host && !it.host_group ? (
          <Link className="row-link" href={`/hosts/${encodeURIComponent(it.host)}`}>
            {it.host}
          </Link>
        ) : (
          seer(it)
        ),
    },
    { name: "LUN", key: (it) => it.lun, cell: (it) => it.lun, right: true },
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
    <Panel title="Connections" flush>
      <DataTable
        label="Connections"
        noun="host"
        rows={volume.connections}
        columns={columns}
        id={seer}
        empty={
          <Empty
            icon={Link2}
            title="No host sees it"
            text="Connect it to a host, and the host finds it as a new disk after a rescan."
            action={<Button onClick={onConnect}>Connect a host</Button>}
          />
        }
      />
      {leaving !== undefined && <DisconnectVolume connection={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

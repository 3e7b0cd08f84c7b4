/** The array's side of a datastore: its volume, performance, reduction, snapshots, limits, protection and offloaded commands. */
import { Button, Modal, SimpleGrid, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Camera, CopyPlus, Expand, ShieldCheck, Trash2 } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../api/client";
import { useChange, volume as volumeQuery } from "../api/queries";
import type { SchemaSnapshot as Snapshot, SchemaVolume as Volume } from "../api/schema";
import { useMay } from "../api/session";
import { bytes, moment } from "../format";
import { NowPanel } from "../pages/dashboard/now";
import { LimitsPanel } from "../pages/limits";
import { Kept } from "../pages/snapshots/columns";
import { TakeSnapshot, useSnapshotsOf } from "../pages/snapshots/forms";
import { ProtectionPanel } from "../pages/volumes/protection";
import { SpaceOf } from "../pages/volumes/volume";
import { Act } from "../parts/act";
import { Confirm } from "../parts/confirm";
import { Empty } from "../parts/empty";
import { Fact } from "../parts/fact";
import { Form } from "../parts/form";
import { May } from "../parts/may";
import { Page } from "../parts/page";
import { Panel } from "../parts/panel";
import { ProblemAlert } from "../parts/problem";
import { DataTable, type Column } from "../parts/table";
import { useTask } from "../parts/use-task";
import { GrowForm, ProtectForm } from "./actions";
import { OffloadPanels } from "./overview";
import { usePlace } from "./place";
import type { Context } from "./server";
import { useWork, WorkProgress } from "./work";

type Task = "grow" | "snapshot" | "protect";

export function DatastoreView() {
  const { about } = usePlace();
  const name = about.volume ?? "";
  const { data, error } = useQuery(volumeQuery(name));
  const { start, window } = useTask<Task>();
  const actions = (
    <May>
      <Button variant="default" leftSection={<Camera size={16} aria-hidden />} onClick={() => start("snapshot")}>
        Take snapshot
      </Button>
      <Button variant="default" leftSection={<ShieldCheck size={16} aria-hidden />} onClick={() => start("protect")}>
        Protect
      </Button>
      <Button leftSection={<Expand size={16} aria-hidden />} onClick={() => start("grow")}>
        Grow
      </Button>
    </May>
  );
  return (
    <Page title={about.name} actions={data && actions}>
      <Stack gap="md">
        <ProblemAlert error={error} />
        {!data && !error && <Skeleton height={180} />}
        {data && (
          <>
            <NowPanel scope={{ kind: "volume", name: data.name }} />
            <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
              <SpaceOf volume={data} />
              <Stack gap="md">
                <Identity about={about} volume={data} />
                <ProtectionPanel volume={data} />
              </Stack>
            </SimpleGrid>
            <Snapshots volume={data} onTake={() => start("snapshot")} />
            <LimitsPanel kind="volume" thing={data} />
            <OffloadPanels scope={{ kind: "volume", name: data.name }} />
            <TakeSnapshot volume={data.name} {...window("snapshot")} />
            <Modal {...window("grow")} title={`Grow ${about.name}`}>
              <GrowForm onClose={window("grow").onClose} />
            </Modal>
            <Modal {...window("protect")} title={`Protect ${about.name}`}>
              <ProtectForm onClose={window("protect").onClose} />
            </Modal>
          </>
        )}
      </Stack>
    </Page>
  );
}

function Identity({ about, volume }: { about: Context; volume: Volume }) {
  return (
    <Panel title="Volume">
      <dl className="facts">
        <Fact name="Array">{about.array}</Fact>
        <Fact name="Volume">{volume.name}</Fact>
        <Fact name="Size">{bytes(volume.size)}</Fact>
        <Fact name="File system">{`${bytes(about.capacity ?? 0)}, ${bytes(about.free ?? 0)} free`}</Fact>
        <Fact name="Device">{volume.naa}</Fact>
        <Fact name="Group">{volume.group ?? "none"}</Fact>
        <Fact name="Virtual machines">{about.machines?.join(", ") ?? "none"}</Fact>
      </dl>
    </Panel>
  );
}

function Snapshots({ volume, onTake }: { volume: Volume; onTake: () => void }) {
  const { about } = usePlace();
  const may = useMay("operator");
  const rows = useSnapshotsOf(volume.name);
  const [restored, restore] = useState<Snapshot>();
  const [doomed, remove] = useState<Snapshot>();
  const columns: Column<Snapshot>[] = [
    { name: "Taken", key: (it) => Date.parse(it.created), down: true, cell: (it) => <span className="number">{moment(it.created, true)}</span> },
    { name: "Name", key: (it) => it.name, cell: (it) => it.name },
    { name: "Mapped", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true, wide: true },
    { name: "State", key: (it) => it.retain_until ?? "", cell: (it) => <Kept snapshot={it} />, wide: true },
    {
      name: "",
      right: true,
      cell: (it) =>
        may && (
          <>
            {about.cluster && <Act label={`Restore ${it.name} as a copy`} icon={CopyPlus} onClick={() => restore(it)} />}
            <Act label={`Delete ${it.name}`} icon={Trash2} onClick={() => remove(it)} />
          </>
        ),
    },
  ];
  const button = (
    <May>
      <Button variant="default" size="compact-sm" leftSection={<Camera size={14} aria-hidden />} onClick={onTake}>
        Take snapshot
      </Button>
    </May>
  );
  return (
    <Panel title="Snapshots" flush>
      <DataTable
        label="Snapshots"
        noun="snapshot"
        rows={rows}
        columns={columns}
        id={(it) => it.id}
        pageSize={10}
        empty={<Empty icon={Camera} title="No snapshots yet" text="A snapshot preserves the current contents of the datastore’s volume. It takes space only for data that is overwritten later." action={button} />}
      />
      {restored && (
        <Modal opened onClose={() => restore(undefined)} title={`Restore ${restored.name} as a copy`}>
          <RestoreCopy snapshot={restored} onClose={() => restore(undefined)} />
        </Modal>
      )}
      {doomed && <DeleteSnapshot snapshot={doomed} onClose={() => remove(undefined)} />}
    </Panel>
  );
}

function RestoreCopy({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const { about } = usePlace();
  const form = useForm({ initialValues: { name: `${about.name}-copy` }, validate: { name: storeError } });
  const { begin, work, error } = useWork("copy", ({ name }: typeof form.values) => ({ snapshot: snapshot.name, name }));
  if (work) return <WorkProgress work={work} error={error} onClose={onClose} />;
  return (
    <Form verb="Restore" busy={begin.isPending} error={error} onClose={onClose} onSubmit={form.onSubmit((values) => begin.mutate(values))}>
      <Text size="sm">
        The snapshot of {moment(snapshot.created)} becomes a datastore of its own on cluster {about.cluster}, with a new signature. {about.name} stays as it is; the copy takes no space until something is written to it.
      </Text>
      <TextInput label="Name of the datastore" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
    </Form>
  );
}

function DeleteSnapshot({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/snapshots/{name}", { params: { path: { name: snapshot.name } } })),
    done: () => `Snapshot ${snapshot.name} is in the recycle bin of the array.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${snapshot.name}?`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      It moves to the recycle bin of the array. Until it is eradicated, it can be restored there, and its space is not freed.
    </Confirm>
  );
}

/** The error in the name of a datastore, if any. */
export function storeError(name: string): string | null {
  if (name.trim() === "") return "Give it a name.";
  if (/[/\\%]/.test(name)) return "Without / \\ and %.";
  return name.length > 42 ? "42 characters at most." : null;
}

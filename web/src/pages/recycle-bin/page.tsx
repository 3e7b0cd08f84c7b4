import { ActionIcon, Button, Group, TextInput, Tooltip } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Flame, Trash2, Undo2 } from "lucide-react";
import { useState } from "react";
import { useLocation } from "wouter";
import { answer, api } from "../../api/client";
import { recycleBin, settings, useChange } from "../../api/queries";
import type { SchemaBinnedDisk as Binned } from "../../api/schema";
import { bytes, duration, moment } from "../../format";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { nameError } from "../../parts/size-input";
import { NounList } from "../../parts/noun-list";
import type { Column } from "../../parts/table";

type Task = { verb: "restore" | "eradicate"; volume: Binned };

export function RecycleBinPage() {
  const list = useQuery(recycleBin());
  const set = useQuery(settings());
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const keeps = set.data ? duration(set.data.recycle_bin_seconds) : "some time";
  return (
    <NounList
      title="Recycle bin"
      noun="entry"
      many="entries"
      list={list}
      columns={columns(setTask)}
      id={(it) => it.id}
      text={(it) => it.name}
      empty={{ icon: Trash2, title: "The recycle bin is empty", text: `Deleted volumes and snapshots are kept here for ${keeps} with their data, and can be restored.` }}
    >
      {task?.verb === "restore" && <Restore volume={task.volume} onClose={close} />}
      {task?.verb === "eradicate" && <Eradicate volume={task.volume} onClose={close} />}
    </NounList>
  );
}

const columns = (choose: (task: Task) => void): Column<Binned>[] => [
  { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
  { name: "Kind", key: (it) => it.kind, cell: (it) => it.kind, wide: true },
  { name: "Size", key: (it) => it.size, cell: (it) => bytes(it.size), right: true, wide: true },
  { name: "Mapped", key: (it) => it.mapped, cell: (it) => bytes(it.mapped), right: true, wide: true },
  { name: "Deleted", key: (it) => it.deleted, cell: (it) => <span className="quiet number">{moment(it.deleted)}</span>, wide: true },
  { name: "Eradicated after", key: (it) => it.eradicated_after, cell: (it) => <span className="number">{moment(it.eradicated_after)}</span> },
  {
    name: "",
    right: true,
    cell: (it) => (
      <May>
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button variant="subtle" size="compact-sm" leftSection={<Undo2 size={14} aria-hidden />} aria-label={`Restore ${it.name}`} onClick={() => choose({ verb: "restore", volume: it })}>
            Restore
          </Button>
          <May role="admin">
            <Tooltip label="Eradicate now">
              <ActionIcon variant="subtle" color="red" aria-label={`Eradicate ${it.name}`} onClick={() => choose({ verb: "eradicate", volume: it })}>
                <Flame size={15} />
              </ActionIcon>
            </Tooltip>
          </May>
        </Group>
      </May>
    ),
  },
];

type Window = { volume: Binned; onClose: () => void };

function Restore({ volume, onClose }: Window) {
  const [, go] = useLocation();
  const form = useForm({ initialValues: { name: volume.name }, validate: { name: nameError } });
  const restore = useChange({
    run: ({ name }: typeof form.values) =>
      answer(api.POST("/api/v1/recycle-bin/{id}/restore", { params: { path: { id: volume.id } }, body: name === volume.name ? {} : { name } })),
    done: (made) => `${made.name} was restored with its data.`,
    then: (made) => {
      onClose();
      go(`/${volume.kind}s/${encodeURIComponent(made.name)}`);
    },
  });
  return (
    <FormModal opened onClose={onClose} title={`Restore ${volume.name}`} verb="Restore" busy={restore.isPending} error={restore.error} onSubmit={form.onSubmit((values) => restore.mutate(values))}>
      <TextInput label="Name" description="Choose another name if the old one is in use." data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
    </FormModal>
  );
}

function Eradicate({ volume, onClose }: Window) {
  const eradicate = useChange({
    run: () => answer(api.DELETE("/api/v1/recycle-bin/{id}", { params: { path: { id: volume.id } } })),
    done: () => `The data of ${volume.name} was eradicated.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Eradicate ${volume.name}?`} name={volume.name} verb="Eradicate" busy={eradicate.isPending} error={eradicate.error} onConfirm={() => eradicate.mutate(undefined)}>
      Its data is destroyed immediately and cannot be recovered. Its space is freed.
    </Confirm>
  );
}

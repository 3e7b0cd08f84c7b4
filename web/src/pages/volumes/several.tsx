/**
 * Actions for several volumes at once. Volumes are changed and deleted by their ids: a name may belong to another
 * volume since.
 */
import { Button, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Boxes, Camera, Link2, Trash2 } from "lucide-react";
import { useState, type ReactNode } from "react";
import { answer, api } from "../../api/client";
import { each } from "../../api/each";
import { groups, hostGroups, hosts, useChange } from "../../api/queries";
import type { SchemaVolume as Volume } from "../../api/schema";
import { bytes, plural } from "../../format";
import { FormModal } from "../../parts/form";
import { Confirm } from "../../parts/confirm";
import { nameError } from "../../parts/size-input";

type Verb = "connect" | "snapshot" | "group" | "delete";
type Window = { volumes: Volume[]; onClose: () => void; onDone: () => void };

const name = (it: Volume) => it.name;
const them = (count: number) => plural(count, "volume");

export function SeveralVolumes({ volumes, clear }: { volumes: Volume[]; clear: () => void }) {
  // The volumes selected at the click: later changes by other users do not change the open dialog.
  const [asked, setAsked] = useState<{ verb: Verb; volumes: Volume[] }>();
  const close = () => setAsked(undefined);
  const done = () => {
    close();
    clear();
  };
  const window = asked && { volumes: asked.volumes, onClose: close, onDone: done };
  const button = (it: Verb, label: string, icon: ReactNode) => (
    <Button variant="default" size="compact-sm" leftSection={icon} onClick={() => setAsked({ verb: it, volumes })}>
      {label}
    </Button>
  );
  return (
    <>
      {button("connect", "Connect", <Link2 size={14} aria-hidden />)}
      {button("snapshot", "Take snapshots", <Camera size={14} aria-hidden />)}
      {button("group", "Set group", <Boxes size={14} aria-hidden />)}
      {button("delete", "Delete", <Trash2 size={14} aria-hidden />)}
      {window && asked.verb === "connect" && <ConnectSeveral {...window} />}
      {window && asked.verb === "snapshot" && <SnapshotSeveral {...window} />}
      {window && asked.verb === "group" && <GroupSeveral {...window} />}
      {window && asked.verb === "delete" && <DeleteSeveral {...window} />}
    </>
  );
}

function ConnectSeveral({ volumes, onClose, onDone }: Window) {
  const known = useQuery(hosts()).data ?? [];
  const clusters = useQuery(hostGroups()).data ?? [];
  const form = useForm<{ peer: string | null }>({ initialValues: { peer: null }, validate: { peer: (peer) => (peer ? null : "Choose a host.") } });
  const connect = useChange({
    run: ({ peer }: typeof form.values) => {
      const [kind, of] = (peer ?? "").split(/:(.*)/, 2);
      const to = kind === "group" ? { host_group: of } : { host: of };
      return each(volumes, name, (it) => answer(api.POST("/api/v1/connections", { body: { volume: it.name, ...to } })));
    },
    done: (count) => `${them(count)} connected.`,
    then: onDone,
  });
  const items = (kind: string, of: { name: string }[]) => of.map(({ name }) => ({ value: `${kind}:${name}`, label: name }));
  return (
    <FormModal opened onClose={onClose} title={`Connect ${them(volumes.length)}`} verb="Connect" busy={connect.isPending} error={connect.error} onSubmit={form.onSubmit((values) => connect.mutate(values))}>
      <Select label="To" placeholder="Host or host group" description="Each volume gets the lowest free LUN." data={[{ group: "Hosts", items: items("host", known) }, { group: "Host groups", items: items("group", clusters) }]} limit={100} searchable required data-autofocus {...form.getInputProps("peer")} />
    </FormModal>
  );
}

function SnapshotSeveral({ volumes, onClose, onDone }: Window) {
  const form = useForm({ initialValues: { suffix: "" }, validate: { suffix: (suffix) => (suffix === "" ? null : nameError(suffix)) } });
  const take = useChange({
    run: ({ suffix }: typeof form.values) => each(volumes, name, (it) => answer(api.POST("/api/v1/snapshots", { body: { volume: it.name, ...(suffix && { suffix }) } }))),
    done: (count) => `${plural(count, "snapshot")} taken.`,
    then: onDone,
  });
  return (
    <FormModal opened onClose={onClose} title={`Snapshots of ${them(volumes.length)}`} verb="Take snapshots" busy={take.isPending} error={take.error} onSubmit={form.onSubmit((values) => take.mutate(values))}>
      <Text size="sm">One after the other. For snapshots of the same moment put the volumes into a group, and take a snapshot of it.</Text>
      <TextInput label="Name suffix" placeholder="the time" autoComplete="off" spellCheck={false} data-autofocus {...form.getInputProps("suffix")} />
    </FormModal>
  );
}

function GroupSeveral({ volumes, onClose, onDone }: Window) {
  const known = useQuery(groups()).data ?? [];
  const form = useForm<{ group: string | null }>({ initialValues: { group: null } });
  const set = useChange({
    run: ({ group }: typeof form.values) => each(volumes, name, (it) => answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name: it.id } }, body: { group } }))),
    done: (count) => `The group of ${them(count)} is set.`,
    then: onDone,
  });
  return (
    <FormModal opened onClose={onClose} title={`Group of ${them(volumes.length)}`} verb="Save" busy={set.isPending} error={set.error} onSubmit={form.onSubmit((values) => set.mutate(values))}>
      <Select label="Volume group" placeholder="None" description="Quotas, QoS limits and data reduction settings of the group then hold for them." data={known.map((it) => it.name)} searchable clearable data-autofocus {...form.getInputProps("group")} />
    </FormModal>
  );
}

function DeleteSeveral({ volumes, onClose, onDone }: Window) {
  const remove = useChange({
    run: () => each(volumes, name, (it) => answer(api.DELETE("/api/v1/volumes/{name}", { params: { path: { name: it.id } } }))),
    done: (count) => `${them(count)} moved to the recycle bin.`,
    then: onDone,
  });
  const connected = volumes.filter((it) => it.connections.length > 0);
  const snapshots = volumes.reduce((sum, it) => sum + it.snapshots, 0);
  return (
    <Confirm opened onClose={onClose} title={`Delete ${them(volumes.length)}?`} name={them(volumes.length)} blocked={connected.length > 0 && `${connected.map(name).join(", ")}: connected to hosts. Disconnect ${connected.length === 1 ? "it" : "them"} first, or select others.`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      <Stack gap="xs">
        <div style={{ overflowWrap: "anywhere", maxHeight: 140, overflowY: "auto" }}>{volumes.map(name).join(", ")}</div>
        <div>
          They go to the recycle bin with {bytes(volumes.reduce((sum, it) => sum + it.mapped, 0))} of mapped data, and can be restored until they are eradicated.
          {snapshots > 0 && ` Their ${plural(snapshots, "snapshot")} ${snapshots === 1 ? "is" : "are"} kept.`}
        </div>
      </Stack>
    </Confirm>
  );
}

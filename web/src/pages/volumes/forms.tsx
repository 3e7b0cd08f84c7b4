import { Checkbox, NumberInput, SegmentedControl, Select, Switch, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { groups, hostGroups, hosts, useChange } from "../../api/queries";
import { Refusal } from "../../api/refusal";
import type { SchemaConnection as Connection, SchemaVolume as Volume } from "../../api/schema";
import { accessorName, bytes, exactBytes, parseBytes } from "../../format";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { nameError, sizeError, SizeInput } from "../../parts/size-input";

type Window = { opened: boolean; onClose: () => void };

const path = (name: string) => `/volumes/${encodeURIComponent(name)}`;

/** The field of a request for `host:NAME` or `group:NAME`. */
function peerOf(chosen: string): { host?: string; host_group?: string } {
  const [kind, name = ""] = chosen.split(/:(.*)/, 2);
  return kind === "group" ? { host_group: name } : { host: name };
}

/** A new volume with its limits, its schedule, and a host or host group that is connected to it. Each is a request; those that fail are named. */
export function CreateVolume({ opened, onClose }: Window) {
  const [, go] = useLocation();
  const known = useQuery({ ...hosts(), enabled: opened });
  const clusters = useQuery({ ...hostGroups(), enabled: opened });
  const families = useQuery({ ...groups(), enabled: opened });
  const form = useForm<{ name: string; size: string; block: string; peer: string | null; group: string; iops: number | string; bandwidth: string; when: string | null; keep: number | string }>({
    initialValues: { name: "", size: "", block: "512", peer: null, group: "", iops: "", bandwidth: "", when: null, keep: 7 },
    validate: {
      name: nameError,
      size: (text, { block }) => sizeError(text, Number(block)),
      bandwidth: (text) => (text.trim() !== "" && parseBytes(text) === undefined ? "Write a number with a unit, such as 200 MiB, or nothing." : null),
      keep: (keep, { when }) => (when === null || Number(keep) > 0 ? null : "How many?"),
    },
  });
  // The volume that a try before this one made, when the array refused what came after it.
  const made = useRef<{ volume: Volume; done: Set<string> }>(null);
  const create = useChange({
    run: async ({ name, size, block, peer, group, iops, bandwidth, when, keep }: typeof form.values) => {
      if (made.current?.volume.name !== name) {
        made.current = { volume: await created(api.POST("/api/v1/volumes", { body: { name, size: parseBytes(size) ?? 0, block_size: Number(block), ...(group && { group }) } })), done: new Set() };
      }
      const { volume, done } = made.current;
      const limits = { ...(iops !== "" && { iops: Number(iops) }), ...(bandwidth.trim() !== "" && { bandwidth: parseBytes(bandwidth) ?? null }) };
      const steps: [string, () => Promise<unknown>][] = [];
      if (Object.keys(limits).length > 0) steps.push(["QoS limits", () => answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name: volume.id } }, body: { limits } }))]);
      if (when !== null) steps.push(["Schedule", () => answer(api.POST("/api/v1/schedules", { body: { name, volume: name, rules: [{ when, keep: Number(keep) }] } }))]);
      if (peer !== null) steps.push(["Connection", () => answer(api.POST("/api/v1/connections", { body: { volume: name, ...peerOf(peer) } }))]);
      const failed: string[] = [];
      for (const [what, step] of steps.filter(([what]) => !done.has(what))) {
        try {
          await step();
          done.add(what);
        } catch (error) {
          failed.push(`${what}: ${Refusal.of(error).detail}`);
        }
      }
      if (failed.length > 0) throw new Refusal(`Volume ${name} was created, but not all of what was asked for`, `${failed.join("; ")}. Nothing was undone: change it and try again, or close the window and continue on the page of the volume.`, 409, "failed");
      return volume;
    },
    done: (made) => `Volume ${made.name} was created.`,
    then: (made) => {
      close();
      go(path(made.name));
    },
  });
  const close = () => {
    onClose();
    form.reset();
    made.current = null;
    create.reset();
  };
  return (
    <FormModal opened={opened} onClose={close} title="Create volume" verb="Create" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <SizeInput label="Size" {...form.getInputProps("size")} />
      <div>
        <Text size="sm" fw={500} mb={4} id="block-size">
          Block size
        </Text>
        <SegmentedControl aria-labelledby="block-size" data={[{ value: "512", label: "512 bytes" }, { value: "4096", label: "4 KiB" }]} {...form.getInputProps("block")} />
        <Text size="xs" className="quiet" mt={4}>
          Every host can use 512. It cannot be changed later.
        </Text>
      </div>
      <Select
        label="Connect to"
        placeholder="No host"
        data={[
          { group: "Hosts", items: known.data?.map(({ name }) => ({ value: `host:${name}`, label: name })) ?? [] },
          { group: "Host groups", items: clusters.data?.map(({ name }) => ({ value: `group:${name}`, label: name })) ?? [] },
        ]}
        searchable
        clearable
        limit={100}
        {...form.getInputProps("peer")}
      />
      {families.data && families.data.length > 0 && (
        <Select label="Volume group" placeholder="None" data={families.data.map((it) => it.name)} searchable clearable value={form.values.group || null} onChange={(group) => form.setFieldValue("group", group ?? "")} />
      )}
      <NumberInput label="IOPS limit" placeholder="Unlimited" min={1} allowDecimal={false} allowNegative={false} thousandSeparator="," {...form.getInputProps("iops")} />
      <SizeInput label="Bandwidth limit per second" required={false} description="Such as 200 MiB. Empty: unlimited." {...form.getInputProps("bandwidth")} />
      <Select label="Snapshots" placeholder="No schedule" data={["hourly", "daily", "weekly", "monthly"]} clearable {...form.getInputProps("when")} />
      {form.values.when !== null && <NumberInput label="Snapshots to retain" min={1} allowDecimal={false} allowNegative={false} {...form.getInputProps("keep")} />}
    </FormModal>
  );
}

/** Creates a clone. The clone takes no space until one of the two volumes changes. */
export function CloneVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const [, go] = useLocation();
  const form = useForm({ initialValues: { name: `${volume.name}-clone` }, validate: { name: nameError } });
  const clone = useChange({
    run: ({ name }: { name: string }) => created(api.POST("/api/v1/volumes", { body: { name, source: volume.name } })),
    done: (made) => `Volume ${made.name} is a clone of ${volume.name}.`,
    then: (made) => {
      onClose();
      go(path(made.name));
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Clone ${volume.name}`} verb="Clone" busy={clone.isPending} error={clone.error} onSubmit={form.onSubmit((values) => clone.mutate(values))}>
      <Text size="sm">The clone has the current contents of the volume. It takes no space until one of the two changes.</Text>
      <TextInput label="Name of the clone" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
    </FormModal>
  );
}

/** Changes the size. Shrinking destroys data, so the form asks twice. */
export function ResizeVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const form = useForm({
    initialValues: { size: exactBytes(volume.size), shrink: false },
    validate: {
      size: (text) => sizeError(text, volume.block_size),
      shrink: (sure, { size }) => ((parseBytes(size) ?? 0) < volume.size && !sure ? "Data after the new end is destroyed: confirm that." : null),
    },
  });
  const smaller = (parseBytes(form.values.size) ?? volume.size) < volume.size;
  const resize = useChange({
    run: ({ size, shrink }: typeof form.values) =>
      answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name: volume.name } }, body: { size: parseBytes(size) ?? 0, shrink: shrink && smaller } })),
    done: (now) => `Volume ${now.name} has ${bytes(now.size)}.`,
    then: onClose,
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Resize ${volume.name}`} verb="Resize" busy={resize.isPending} error={resize.error} onSubmit={form.onSubmit((values) => resize.mutate(values))}>
      <SizeInput label="New size" description={`Now ${bytes(volume.size)}. Hosts are notified and see the new size after a rescan.`} {...form.getInputProps("size")} />
      {smaller && <Checkbox label={`Destroy the data after ${form.values.size}`} color="red" {...form.getInputProps("shrink", { type: "checkbox" })} />}
    </FormModal>
  );
}

/** Changes the name, group and protocols. */
export function ChangeVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const [, go] = useLocation();
  const known = useQuery({ ...groups(), enabled: opened });
  const form = useForm({ initialValues: { name: volume.name, group: volume.group ?? null, mixed: volume.mixed_transports }, validate: { name: nameError } });
  const save = useChange({
    run: ({ name, group, mixed }: typeof form.values) =>
      answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name: volume.name } }, body: { group, ...(name !== volume.name && { name }), ...(mixed !== volume.mixed_transports && { mixed_transports: mixed }) } })),
    done: (now) => `Volume ${now.name} is changed.`,
    then: (now) => {
      onClose();
      if (now.name !== volume.name) go(path(now.name), { replace: true });
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Change ${volume.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" description="Hosts are not affected: they identify the volume by its NAA identifier." data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <Select label="Volume group" placeholder="None" data={known.data?.map((it) => it.name) ?? [volume.group ?? ""].filter(Boolean)} searchable clearable {...form.getInputProps("group")} />
      <Switch label="iSCSI and NVMe/TCP at once" description="Reservations and Compare and Write hold across both. Hosts such as ESXi do not support it." {...form.getInputProps("mixed", { type: "checkbox" })} />
    </FormModal>
  );
}

/** Connects the volume or snapshot to a host or host group. */
export function ConnectVolume({ volume, opened, onClose }: Window & { volume: { name: string; connections: Connection[] } }) {
  const known = useQuery({ ...hosts(), enabled: opened });
  const families = useQuery({ ...hostGroups(), enabled: opened });
  const seen = new Set(volume.connections.map((it) => (it.host_group ? `group:${it.host_group}` : `host:${it.host}`)));
  const form = useForm<{ peer: string | null; lun: number | string; read_only: boolean }>({
    initialValues: { peer: null, lun: "", read_only: false },
    validate: { peer: (peer) => (peer ? null : "Choose a host.") },
  });
  const connect = useChange({
    run: ({ peer, lun, read_only }: typeof form.values) => {
      return answer(api.POST("/api/v1/connections", { body: { volume: volume.name, ...peerOf(peer ?? ""), read_only, ...(lun !== "" && { lun: Number(lun) }) } }));
    },
    done: (made) => `${accessorName(made)} is connected to ${made.volume} as LUN ${made.lun}.`,
    then: () => {
      form.reset();
      onClose();
    },
  });
  const choices = (kind: string, names: string[] | undefined) => (names ?? []).map((label) => ({ value: `${kind}:${label}`, label })).filter(({ value }) => !seen.has(value));
  return (
    <FormModal opened={opened} onClose={onClose} title={`Connect ${volume.name}`} verb="Connect" busy={connect.isPending} error={connect.error} onSubmit={form.onSubmit((values) => connect.mutate(values))}>
      <Select
        label="To"
        placeholder="Host or host group"
        nothingFoundMessage="There are no other hosts."
        data={[
          { group: "Hosts", items: choices("host", known.data?.map((it) => it.name)) },
          { group: "Host groups", items: choices("group", families.data?.map((it) => it.name)) },
        ]}
        limit={100}
        searchable
        required
        data-autofocus
        {...form.getInputProps("peer")}
      />
      <NumberInput label="LUN" placeholder="Lowest free LUN" min={0} max={16383} allowDecimal={false} {...form.getInputProps("lun")} />
      <Switch label="Read-only" {...form.getInputProps("read_only", { type: "checkbox" })} />
    </FormModal>
  );
}

/** Disconnects the volume from a host or host group. */
export function DisconnectVolume({ connection, onClose }: { connection: Connection; onClose: () => void }) {
  const { volume, host, host_group } = connection;
  const disconnect = useChange({
    run: () =>
      host_group
        ? answer(api.DELETE("/api/v1/connections/{volume}/host-groups/{host_group}", { params: { path: { volume, host_group } } }))
        : answer(api.DELETE("/api/v1/connections/{volume}/{host}", { params: { path: { volume, host: host ?? "" } } })),
    done: () => `${volume} is disconnected from ${accessorName(connection)}.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Disconnect ${volume} from ${accessorName(connection)}?`} verb="Disconnect" busy={disconnect.isPending} error={disconnect.error} onConfirm={() => disconnect.mutate(undefined)}>
      {host_group ? "All hosts of the group lose" : "The host loses"} the disk immediately. Unmount it there first. Its data is kept.
    </Confirm>
  );
}

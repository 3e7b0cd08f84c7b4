import { Checkbox, NumberInput, SegmentedControl, Select, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { answer, api } from "../../api/client";
import { hosts, useChange } from "../../api/queries";
import type { SchemaConnection as Connection, SchemaVolume as Volume } from "../../api/schema";
import { bytes, parseBytes, seer } from "../../format";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { nameError, sizeError, SizeInput } from "../../parts/size-input";

type Window = { opened: boolean; onClose: () => void };

const path = (name: string) => `/volumes/${encodeURIComponent(name)}`;

/** A new volume, seen by a host at once when one is chosen. */
export function CreateVolume({ opened, onClose }: Window) {
  const [, go] = useLocation();
  const known = useQuery({ ...hosts(), enabled: opened });
  const form = useForm({
    initialValues: { name: "", size: "", block: "512", host: "" },
    validate: { name: nameError, size: (text, { block }) => sizeError(text, Number(block)) },
  });
  const create = useChange({
    run: async ({ name, size, block, host }: typeof form.values) => {
      const made = await answer(api.POST("/api/v1/volumes", { body: { name, size: parseBytes(size) ?? 0, block_size: Number(block) } }));
      if (host) await answer(api.POST("/api/v1/connections", { body: { volume: name, host } }));
      return made;
    },
    done: (made) => `Volume ${made.name} is there.`,
    then: (made) => {
      close();
      go(path(made.name));
    },
  });
  const close = () => {
    onClose();
    form.reset();
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
        placeholder="No host yet"
        data={known.data?.map((host) => host.name) ?? []}
        searchable
        clearable
        value={form.values.host || null}
        onChange={(host) => form.setFieldValue("host", host ?? "")}
      />
    </FormModal>
  );
}

/** A volume with the same content, which takes no space until one of the two changes. */
export function CloneVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const [, go] = useLocation();
  const form = useForm({ initialValues: { name: `${volume.name}-clone` }, validate: { name: nameError } });
  const clone = useChange({
    run: ({ name }: { name: string }) => answer(api.POST("/api/v1/volumes", { body: { name, source: volume.name } })),
    done: (made) => `Volume ${made.name} is a clone of ${volume.name}.`,
    then: (made) => {
      onClose();
      go(path(made.name));
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Clone ${volume.name}`} verb="Clone" busy={clone.isPending} error={clone.error} onSubmit={form.onSubmit((values) => clone.mutate(values))}>
      <Text size="sm">The clone holds what the volume holds now. It takes no space until one of the two changes.</Text>
      <TextInput label="Name of the clone" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
    </FormModal>
  );
}

/** A new size. Shrinking destroys, so it is asked for twice. */
export function ResizeVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const form = useForm({
    initialValues: { size: bytes(volume.size), shrink: false },
    validate: {
      size: (text) => sizeError(text, volume.block_size),
      shrink: (sure, { size }) => ((parseBytes(size) ?? 0) < volume.size && !sure ? "What lies behind the new end is destroyed: say that you want it." : null),
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
      <SizeInput label="New size" description={`Now ${bytes(volume.size)}. Hosts are told; they see it after a rescan.`} {...form.getInputProps("size")} />
      {smaller && <Checkbox label={`Destroy what lies behind ${form.values.size}`} color="red" {...form.getInputProps("shrink", { type: "checkbox" })} />}
    </FormModal>
  );
}

/** Lets one more host see the volume. */
export function ConnectVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const known = useQuery({ ...hosts(), enabled: opened });
  const seen = new Set(volume.connections.map((it) => it.host));
  const form = useForm<{ host: string; lun: number | string }>({
    initialValues: { host: "", lun: "" },
    validate: { host: (host) => (host ? null : "Choose a host.") },
  });
  const connect = useChange({
    run: ({ host, lun }: typeof form.values) => answer(api.POST("/api/v1/connections", { body: { volume: volume.name, host, ...(lun !== "" && { lun: Number(lun) }) } })),
    done: (made) => `${seer(made)} sees ${made.volume} as LUN ${made.lun}.`,
    then: () => {
      form.reset();
      onClose();
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Connect ${volume.name}`} verb="Connect" busy={connect.isPending} error={connect.error} onSubmit={form.onSubmit((values) => connect.mutate(values))}>
      <Select
        label="Host"
        placeholder="Choose"
        nothingFoundMessage="No other host is known."
        data={known.data?.map((host) => host.name).filter((name) => !seen.has(name)) ?? []}
        searchable
        required
        data-autofocus
        {...form.getInputProps("host")}
      />
      <NumberInput label="LUN" placeholder="The lowest free one" min={0} max={16383} allowDecimal={false} {...form.getInputProps("lun")} />
    </FormModal>
  );
}

export function DeleteVolume({ volume, opened, onClose }: Window & { volume: Volume }) {
  const [, go] = useLocation();
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/volumes/{name}", { params: { path: { name: volume.name } } })),
    done: () => `Volume ${volume.name} is in the recycle bin.`,
    then: () => go("/volumes"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${volume.name}?`} name={volume.name} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      The volume of {bytes(volume.size)} goes to the recycle bin, with the {bytes(volume.mapped)} that hosts wrote to it. Until the
      recycle bin lets go of it, it can be restored, and its space is not free.
    </Confirm>
  );
}

/** Takes the volume from a host, or from all hosts of a group. */
export function DisconnectVolume({ connection, onClose }: { connection: Connection; onClose: () => void }) {
  const { volume, host, host_group } = connection;
  const disconnect = useChange({
    run: () =>
      host_group
        ? answer(api.DELETE("/api/v1/connections/{volume}/host-groups/{host_group}", { params: { path: { volume, host_group } } }))
        : answer(api.DELETE("/api/v1/connections/{volume}/{host}", { params: { path: { volume, host: host ?? "" } } })),
    done: () => `${volume} is disconnected from ${seer(connection)}.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Disconnect ${volume} from ${seer(connection)}?`} verb="Disconnect" busy={disconnect.isPending} error={disconnect.error} onConfirm={() => disconnect.mutate(undefined)}>
      {host_group ? "Every host of the group loses" : "The host loses"} the disk at once. Unmount it there first. Its data stay.
    </Confirm>
  );
}

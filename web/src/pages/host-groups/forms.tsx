import { MultiSelect, NumberInput, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { hosts, useChange } from "../../api/queries";
import type { SchemaHostGroup as HostGroup } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { useVolumeChoice } from "../../parts/volume-choice";
import { nameError } from "../../parts/size-input";

type Window = { opened: boolean; onClose: () => void };

/** Creates a host group, or changes its name and hosts. */
export function HostGroupForm({ group, opened, onClose }: Window & { group?: HostGroup }) {
  const [, go] = useLocation();
  const known = useQuery({ ...hosts(), enabled: opened });
  const form = useForm({ initialValues: { name: group?.name ?? "", hosts: group?.hosts ?? [] }, validate: { name: nameError } });
  const free = known.data?.filter((it) => !it.host_group || it.host_group === group?.name).map((it) => it.name);
  const close = () => {
    onClose();
    form.reset();
    save.reset();
  };
  const save = useChange({
    run: (values: typeof form.values) => {
      if (!group) return created(api.POST("/api/v1/host-groups", { body: values }));
      const { name, hosts } = values;
      return answer(api.PATCH("/api/v1/host-groups/{name}", { params: { path: { name: group.name } }, body: { hosts, ...(name !== group.name && { name }) } }));
    },
    done: (made) => (group ? `Host group ${made.name} was changed.` : `Host group ${made.name} was created.`),
    then: (made) => {
      close();
      if (made.name !== group?.name) go(`/host-groups/${encodeURIComponent(made.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={close} title={group ? `Change ${group.name}` : "Create host group"} verb={group ? "Save" : "Create"} busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <MultiSelect label="Hosts" description="Hosts that are in no other host group." data={free ?? form.values.hosts} limit={100} searchable nothingFoundMessage="No such host is free." {...form.getInputProps("hosts")} />
    </FormModal>
  );
}

/** Connects a volume to every host of the group. */
export function ConnectToGroup({ group, opened, onClose }: Window & { group: HostGroup }) {
  const seen = new Set(group.connections.map((it) => it.volume));
  const form = useForm<{ volume: string | null; lun: number | string }>({
    initialValues: { volume: null, lun: "" },
    validate: { volume: (volume) => (volume ? null : "Choose a volume.") },
  });
  const all = useVolumeChoice(opened, [form.values.volume]);
  const connect = useChange({
    run: ({ volume, lun }: typeof form.values) =>
      answer(api.POST("/api/v1/connections", { body: { volume: volume ?? "", host_group: group.name, ...(lun !== "" && { lun: Number(lun) }) } })),
    done: (made) => `Every host of ${group.name} is connected to ${made.volume} as LUN ${made.lun}.`,
    then: () => {
      form.reset();
      onClose();
    },
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Connect a volume to ${group.name}`} verb="Connect" busy={connect.isPending} error={connect.error} onSubmit={form.onSubmit((values) => connect.mutate(values))}>
      <Select label="Volume" placeholder="Choose" data={all.names?.filter((name) => !seen.has(name)) ?? []} {...all.input} required data-autofocus {...form.getInputProps("volume")} />
      <NumberInput label="LUN" placeholder="Lowest free LUN" min={0} max={16383} allowDecimal={false} {...form.getInputProps("lun")} />
    </FormModal>
  );
}

export function DeleteHostGroup({ group, opened, onClose }: Window & { group: HostGroup }) {
  const [, go] = useLocation();
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/host-groups/{name}", { params: { path: { name: group.name } } })),
    done: () => `Host group ${group.name} was deleted. Its hosts are kept.`,
    then: () => go("/host-groups"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${group.name}?`} blocked={group.connections.length > 0 && `${group.name} is connected to ${group.connections.map((it) => it.volume).join(", ")}: disconnect the volumes first.`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Its hosts are kept.
    </Confirm>
  );
}

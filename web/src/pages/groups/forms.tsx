import { MultiSelect, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaGroup as Group } from "../../api/schema";
import { exactBytes, parseBytes, plural } from "../../format";
import { Confirm } from "../../parts/confirm";
import { useUsedText } from "../undeletable";
import { FormModal } from "../../parts/form";
import { useVolumeChoice } from "../../parts/volume-choice";
import { nameError, SizeInput } from "../../parts/size-input";

type Window = { opened: boolean; onClose: () => void };

const quotaError = (text: string) => (text.trim() !== "" && parseBytes(text) === undefined ? "Write a number with a unit, such as 500 GiB, or nothing." : null);
/** The quota in bytes; null for none. */
const quota = (text: string) => parseBytes(text) ?? null;

/** Creates a volume group, or changes its name and quotas. */
export function GroupForm({ group, opened, onClose }: Window & { group?: Group }) {
  const [, go] = useLocation();
  const form = useForm({
    initialValues: { name: group?.name ?? "", soft: group?.soft_quota ? exactBytes(group.soft_quota) : "", hard: group?.hard_quota ? exactBytes(group.hard_quota) : "" },
    validate: { name: nameError, soft: quotaError, hard: quotaError },
  });
  const close = () => {
    onClose();
    form.reset();
    save.reset();
  };
  const save = useChange({
    run: ({ name, soft, hard }: typeof form.values) => {
      const quotas = { soft_quota: quota(soft), hard_quota: quota(hard) };
      if (!group) return created(api.POST("/api/v1/groups", { body: { name, ...quotas } }));
      const renamed = name === group.name ? {} : { name };
      return answer(api.PATCH("/api/v1/groups/{name}", { params: { path: { name: group.name } }, body: { ...renamed, ...quotas } }));
    },
    done: (made) => (group ? `Group ${made.name} was changed.` : `Group ${made.name} was created.`),
    then: (made) => {
      close();
      if (made.name !== group?.name) go(`/groups/${encodeURIComponent(made.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={close} title={group ? `Change ${group.name}` : "Create volume group"} verb={group ? "Save" : "Create"} busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <SizeInput label="Soft quota" required={false} description="Mapped space above which the array warns. Empty: none." {...form.getInputProps("soft")} />
      <SizeInput label="Hard quota" required={false} description="Mapped space above which writes that need new space fail. Empty: none." {...form.getInputProps("hard")} />
    </FormModal>
  );
}

/** Chooses the volumes of the group. */
export function ChooseVolumes({ group, opened, onClose }: Window & { group: Group }) {
  const form = useForm({ initialValues: { volumes: group.volumes } });
  const all = useVolumeChoice(opened, form.values.volumes);
  const save = useChange({
    run: async (values: typeof form.values) => {
      const put = (name: string, into: string | null) =>
        answer(api.PATCH("/api/v1/volumes/{name}", { params: { path: { name } }, body: { group: into } }));
      for (const name of group.volumes.filter((it) => !values.volumes.includes(it))) await put(name, null);
      for (const name of values.volumes.filter((it) => !group.volumes.includes(it))) await put(name, group.name);
      return values.volumes.length;
    },
    done: (number) => `${group.name} has ${plural(number, "volume")}.`,
    then: onClose,
  });
  return (
    <FormModal opened={opened} onClose={onClose} title={`Volumes of ${group.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <MultiSelect
        label="Volumes"
        description="A volume can be in one group only: selecting a volume of another group moves it."
        data={all.names ?? group.volumes}
        {...all.input}
        nothingFoundMessage="No volume has this name."
        data-autofocus
        {...form.getInputProps("volumes")}
      />
    </FormModal>
  );
}

export function DeleteGroup({ group, opened, onClose }: Window & { group: Group }) {
  const used = useUsedText("group", group.name, opened);
  const [, go] = useLocation();
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/groups/{name}", { params: { path: { name: group.name } } })),
    done: () => `Group ${group.name} was deleted. Its volumes are kept.`,
    then: () => go("/groups"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${group.name}?`} blocked={used} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Its volumes, their data and their snapshots are kept. Quotas and QoS limits of the group no longer apply.
    </Confirm>
  );
}

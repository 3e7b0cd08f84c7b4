import { Button, Group, PasswordInput, Select, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useForm, type UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { Network, Pencil, PlugZap, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { directories, useChange } from "../../api/queries";
import type { SchemaDirectory as Directory, SchemaDirectorySettings as Settings, SchemaGrant as Grant } from "../../api/schema";
import { Act } from "../../parts/act";
import { Confirm } from "../../parts/confirm";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { DataTable, type Column } from "../../parts/table";
import { ROLES } from "./users";

type Task = { verb: "change" | "delete"; directory: Directory };

/** Directories elsewhere whose people may sign in. */
export function DirectoriesPanel() {
  const { data, error } = useQuery(directories());
  const [creating, setCreating] = useState(false);
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const test = useChange({
    run: (name: string) => answer(api.POST("/api/v1/directories/{name}/test", { params: { path: { name } } })),
    done: ({ said }) => said,
  });
  const columns: Column<Directory>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
    { name: "Where", key: (it) => it.settings.issuer, cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{it.settings.issuer}</span> },
    { name: "Groups with a role", key: (it) => it.grants.length, cell: (it) => <Grants of={it.grants} />, wide: true },
    { name: "State", key: (it) => String(it.enabled), cell: (it) => (it.enabled ? <Dot color="teal" label="asked" /> : <Dot color="gray" label="off" />) },
    {
      name: "",
      right: true,
      cell: (directory) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Act icon={PlugZap} label={`Test ${directory.name}`} onClick={() => test.mutate(directory.name)} />
          <Act icon={Pencil} label={`Change ${directory.name}`} onClick={() => setTask({ verb: "change", directory })} />
          <Act icon={Trash2} label={`Delete ${directory.name}`} onClick={() => setTask({ verb: "delete", directory })} />
        </Group>
      ),
    },
  ];
  const button = (
    <Button size="compact-sm" leftSection={<Plus size={15} aria-hidden />} onClick={() => setCreating(true)}>
      Add directory
    </Button>
  );
  return (
    <Panel title="Directories" flush actions={data?.length ? button : undefined}>
      <ProblemAlert error={test.error ?? error} />
      {(data || !error) && (
        <DataTable
          label="Directories"
          noun="directory"
          rows={data}
          columns={columns}
          id={(it) => it.name}
          empty={<Empty icon={Network} title="Only users of the array sign in" text="People whom an OpenID provider knows may sign in, too, with the role that their groups have here." action={button} />}
        />
      )}
      <CreateDirectory opened={creating} onClose={() => setCreating(false)} />
      {task?.verb === "change" && <ChangeDirectory directory={task.directory} onClose={close} />}
      {task?.verb === "delete" && <DeleteDirectory directory={task.directory} onClose={close} />}
    </Panel>
  );
}

function Grants({ of }: { of: Grant[] }) {
  if (of.length === 0) return <span className="quiet">none: nobody comes in</span>;
  return <span style={{ overflowWrap: "anywhere" }}>{of.map(({ group, role }) => `${group}: ${role}`).join(", ")}</span>;
}

type GrantValues = { grants: Grant[] };

const unusable = (grants: Grant[]) => grants.some((it, at) => it.group.trim() === "" || grants.some((other, before) => before < at && other.group === it.group));

/** Groups of a directory, each with its role. */
function GrantInputs({ grants, set }: { grants: Grant[]; set: (grants: Grant[]) => void }) {
  const change = (at: number, to: Partial<Grant>) => set(grants.map((it, here) => (here === at ? { ...it, ...to } : it)));
  return (
    <Stack gap="xs" role="group" aria-label="Groups with a role">
      <Text size="sm" fw={500}>
        Groups with a role
      </Text>
      {grants.map((grant, at) => (
        <Group key={at} gap="xs" wrap="nowrap">
          <TextInput aria-label={`Group ${at + 1}`} placeholder="storage-admins" autoComplete="off" spellCheck={false} style={{ flex: 1 }} value={grant.group} onChange={(event) => change(at, { group: event.currentTarget.value })} />
          <Select aria-label={`Role of group ${at + 1}`} data={ROLES.map(({ value }) => value)} allowDeselect={false} w={120} value={grant.role} onChange={(role) => change(at, { role: role ?? "viewer" })} />
          <Act icon={Trash2} label={`Remove group ${at + 1}`} onClick={() => set(grants.filter((_, here) => here !== at))} />
        </Group>
      ))}
      <Button variant="default" size="compact-sm" leftSection={<Plus size={14} aria-hidden />} onClick={() => set([...grants, { group: "", role: "viewer" }])} style={{ alignSelf: "flex-start" }}>
        Add group
      </Button>
      {unusable(grants) && (
        <Text size="xs" c="red">
          Each group has a name, and is there once.
        </Text>
      )}
    </Stack>
  );
}

type Provider = { issuer: string; client_id: string; address: string; scopes: string; user_claim: string; groups_claim: string };

const settingsOf = ({ issuer, client_id, address, scopes, user_claim, groups_claim }: Provider, ca?: string | null): Settings => ({
  kind: "oidc",
  issuer: issuer.trim(),
  client_id: client_id.trim(),
  address: address.trim(),
  scopes: scopes.split(/[\s,]+/).filter(Boolean),
  user_claim: user_claim.trim(),
  groups_claim: groups_claim.trim(),
  ...(ca && { ca }),
});

const providerRules = {
  issuer: (text: string) => (/^https?:\/\/\S+$/.test(text.trim()) ? null : "It begins with https://."),
  client_id: (text: string) => (text.trim() === "" ? "The provider says it." : null),
  address: (text: string) => (/^https?:\/\/[^/\s]+\/?$/.test(text.trim()) ? null : "Write https:// and a name, such as https://array.example.com."),
};

function ProviderInputs<Values extends Provider>({ form }: { form: UseFormReturnType<Values> }) {
  const field = (name: keyof Provider) => form.getInputProps(name as never);
  return (
    <>
      <TextInput label="Issuer" description="The provider’s address, as it calls itself." placeholder="https://id.example.com/realms/staff" autoComplete="off" spellCheck={false} required {...field("issuer")} />
      <TextInput label="Client" description="What the provider calls the array." autoComplete="off" spellCheck={false} required {...field("client_id")} />
      <TextInput label="Address of the array" description="Where browsers reach it. Let the provider send them back there, to /sign-in." autoComplete="off" spellCheck={false} required {...field("address")} />
      <TextInput label="Scopes" description="Besides openid." autoComplete="off" spellCheck={false} {...field("scopes")} />
      <Group grow align="flex-start">
        <TextInput label="Claim with names" autoComplete="off" spellCheck={false} required {...field("user_claim")} />
        <TextInput label="Claim with groups" autoComplete="off" spellCheck={false} required {...field("groups_claim")} />
      </Group>
    </>
  );
}

function CreateDirectory({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm<Provider & GrantValues & { name: string; secret: string }>({
    initialValues: { name: "", issuer: "", client_id: "", address: location.origin, scopes: "profile email", user_claim: "preferred_username", groups_claim: "groups", secret: "", grants: [{ group: "", role: "admin" }] },
    validate: { name: nameError, ...providerRules, grants: (grants) => (unusable(grants) ? "Each group has a name, and is there once." : null) },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, secret, grants, ...provider }: typeof form.values) => answer(api.POST("/api/v1/directories", { body: { name, settings: settingsOf(provider), grants, ...(secret && { secret }) } })),
    done: (made) => `People of ${made.name} may sign in. Send it a test.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Add a directory" verb="Add" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" description="People see it when they sign in." autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <ProviderInputs form={form} />
      <PasswordInput label="Secret of the client" autoComplete="new-password" {...form.getInputProps("secret")} />
      <GrantInputs grants={form.values.grants} set={(grants) => form.setFieldValue("grants", grants)} />
    </FormModal>
  );
}

function ChangeDirectory({ directory: { name, settings, grants, enabled, has_secret }, onClose }: { directory: Directory; onClose: () => void }) {
  const { issuer, client_id, address, user_claim, groups_claim } = settings;
  const provider = { issuer, client_id, address, scopes: (settings.scopes ?? []).join(" "), user_claim: user_claim ?? "", groups_claim: groups_claim ?? "" };
  const form = useForm<Provider & GrantValues & { name: string; enabled: boolean; secret: string }>({
    initialValues: { name, ...provider, grants, enabled, secret: "" },
    validate: { name: nameError, ...providerRules, grants: (grants) => (unusable(grants) ? "Each group has a name, and is there once." : null) },
  });
  const save = useChange({
    run: ({ name: called, grants, enabled, secret, ...provider }: typeof form.values) =>
      answer(api.PATCH("/api/v1/directories/{name}", { params: { path: { name } }, body: { name: called, settings: settingsOf(provider, settings.ca), grants, enabled, ...(secret && { secret }) } })),
    done: (now) => `${now.name} is changed; its people sign in again.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Change ${name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <ProviderInputs form={form} />
      <PasswordInput label="Another secret of the client" description={has_secret ? "There is one; it stays when this is empty and nothing of the provider changes." : "There is none."} autoComplete="new-password" {...form.getInputProps("secret")} />
      <GrantInputs grants={form.values.grants} set={(grants) => form.setFieldValue("grants", grants)} />
      <Switch label="It is asked" {...form.getInputProps("enabled", { type: "checkbox" })} />
    </FormModal>
  );
}

function DeleteDirectory({ directory: { name }, onClose }: { directory: Directory; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/directories/{name}", { params: { path: { name } } })),
    done: () => `${name} is no longer asked.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${name}?`} name={name} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      The sessions of its people end at once. Users of the array sign in as before.
    </Confirm>
  );
}

import { Button, Group, PasswordInput, Select, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
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
    { name: "Where", key: (it) => whereOf(it.settings), cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{whereOf(it.settings)}</span> },
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
          empty={<Empty icon={Network} title="Only users of the array sign in" text="People whom an OpenID provider or an LDAP server knows may sign in, too, with the role that their groups have here." action={button} />}
        />
      )}
      <CreateDirectory opened={creating} onClose={() => setCreating(false)} />
      {task?.verb === "change" && <ChangeDirectory directory={task.directory} onClose={close} />}
      {task?.verb === "delete" && <DeleteDirectory directory={task.directory} onClose={close} />}
    </Panel>
  );
}

const whereOf = (settings: Settings) => (settings.kind === "oidc" ? settings.issuer : settings.server);

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

type Kind = Settings["kind"];

/** Everything that settings of any kind hold, as people write it. */
type Values = {
  kind: Kind;
  issuer: string;
  client_id: string;
  address: string;
  scopes: string;
  user_claim: string;
  groups_claim: string;
  server: string;
  starttls: boolean;
  bind_dn: string;
  base: string;
  user_attribute: string;
  group_base: string;
  ca: string;
};

const USUAL: Values = {
  kind: "oidc",
  issuer: "",
  client_id: "",
  address: location.origin,
  scopes: "profile email",
  user_claim: "preferred_username",
  groups_claim: "groups",
  server: "",
  starttls: false,
  bind_dn: "",
  base: "",
  user_attribute: "uid",
  group_base: "",
  ca: "",
};

function valuesOf(settings: Settings): Values {
  if (settings.kind === "oidc") return { ...USUAL, ...settings, scopes: (settings.scopes ?? []).join(" "), ca: settings.ca ?? "" };
  return { ...USUAL, ...settings, bind_dn: settings.bind_dn ?? "", group_base: settings.group_base ?? "", ca: settings.ca ?? "" };
}

function settingsOf(values: Values): Settings {
  const ca = values.ca.trim() && { ca: values.ca };
  if (values.kind === "oidc") {
    const { issuer, client_id, address, scopes, user_claim, groups_claim } = values;
    return { kind: "oidc", issuer: issuer.trim(), client_id: client_id.trim(), address: address.trim(), scopes: scopes.split(/[\s,]+/).filter(Boolean), user_claim: user_claim.trim(), groups_claim: groups_claim.trim(), ...ca };
  }
  const { server, starttls, bind_dn, base, user_attribute, group_base } = values;
  return { kind: "ldap", server: server.trim(), starttls, bind_dn: bind_dn.trim() || null, base: base.trim(), user_attribute: user_attribute.trim(), group_base: group_base.trim() || null, ...ca };
}

const of = (kind: Kind, wrong: RegExp, says: string) => (text: string, values: Values) => (values.kind === kind && !wrong.test(text.trim()) ? says : null);

const RULES = {
  issuer: of("oidc", /^https?:\/\/\S+$/, "It begins with https://."),
  client_id: of("oidc", /./, "The provider says it."),
  address: of("oidc", /^https?:\/\/[^/\s]+\/?$/, "Write https:// and a name, such as https://array.example.com."),
  server: of("ldap", /^ldaps?:\/\/[^/\s]+$/, "Write ldaps:// and a name, such as ldaps://ldap.example.com."),
  base: of("ldap", /=/, "Write a distinguished name, such as ou=people,dc=example,dc=com."),
};

const SECRETS: Record<Kind, string> = { oidc: "Secret of the client", ldap: "Password of who searches" };

function SettingsInputs({ form }: { form: Pick<UseFormReturnType<Values>, "getInputProps"> & { values: Values } }) {
  const text = { autoComplete: "off", spellCheck: false };
  if (form.values.kind === "oidc") {
    return (
      <>
        <TextInput label="Issuer" description="The provider’s address, as it calls itself." placeholder="https://id.example.com/realms/staff" {...text} required {...form.getInputProps("issuer")} />
        <TextInput label="Client" description="What the provider calls the array." {...text} required {...form.getInputProps("client_id")} />
        <TextInput label="Address of the array" description="Where browsers reach it. Let the provider send them back there, to /sign-in." {...text} required {...form.getInputProps("address")} />
        <TextInput label="Scopes" description="Besides openid." {...text} {...form.getInputProps("scopes")} />
        <Group grow align="flex-start">
          <TextInput label="Claim with names" {...text} required {...form.getInputProps("user_claim")} />
          <TextInput label="Claim with groups" {...text} required {...form.getInputProps("groups_claim")} />
        </Group>
      </>
    );
  }
  return (
    <>
      <TextInput label="Server" placeholder="ldaps://ldap.example.com" {...text} required {...form.getInputProps("server")} />
      <Switch label="TLS begins by STARTTLS" {...form.getInputProps("starttls", { type: "checkbox" })} />
      <TextInput label="People are below" placeholder="ou=people,dc=example,dc=com" {...text} required {...form.getInputProps("base")} />
      <TextInput label="Attribute with names" description="sAMAccountName in Active Directory." {...text} required {...form.getInputProps("user_attribute")} />
      <TextInput label="Groups are below" description="They go by their cn. When it is empty, people know theirs (memberOf), and groups go by distinguished names." {...text} {...form.getInputProps("group_base")} />
      <TextInput label="Who searches" description="A distinguished name; nobody in particular when it is empty." {...text} {...form.getInputProps("bind_dn")} />
    </>
  );
}

function CreateDirectory({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm<Values & GrantValues & { name: string; secret: string }>({
    initialValues: { ...USUAL, name: "", secret: "", grants: [{ group: "", role: "admin" }] },
    validate: { name: nameError, ...RULES, grants: (grants) => (unusable(grants) ? "Each group has a name, and is there once." : null) },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, secret, grants, ...settings }: typeof form.values) => answer(api.POST("/api/v1/directories", { body: { name, settings: settingsOf(settings), grants, ...(secret && { secret }) } })),
    done: (made) => `People of ${made.name} may sign in. Send it a test.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Add a directory" verb="Add" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" description="People see it when they sign in." autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select label="Kind" data={[{ value: "oidc", label: "OpenID Connect" }, { value: "ldap", label: "LDAP" }]} allowDeselect={false} {...form.getInputProps("kind")} />
      <SettingsInputs form={form} />
      <Textarea label="Certificates that are trusted there" description="PEM; those that the array’s system trusts when it is empty." autosize minRows={1} maxRows={6} {...form.getInputProps("ca")} />
      <PasswordInput label={SECRETS[form.values.kind]} autoComplete="new-password" {...form.getInputProps("secret")} />
      <GrantInputs grants={form.values.grants} set={(grants) => form.setFieldValue("grants", grants)} />
    </FormModal>
  );
}

function ChangeDirectory({ directory: { name, settings, grants, enabled, has_secret }, onClose }: { directory: Directory; onClose: () => void }) {
  const form = useForm<Values & GrantValues & { name: string; enabled: boolean; secret: string }>({
    initialValues: { ...valuesOf(settings), name, grants, enabled, secret: "" },
    validate: { name: nameError, ...RULES, grants: (grants) => (unusable(grants) ? "Each group has a name, and is there once." : null) },
  });
  const save = useChange({
    run: ({ name: called, grants, enabled, secret, ...changed }: typeof form.values) =>
      answer(api.PATCH("/api/v1/directories/{name}", { params: { path: { name } }, body: { name: called, settings: settingsOf(changed), grants, enabled, ...(secret && { secret }) } })),
    done: (now) => `${now.name} is changed; its people sign in again.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Change ${name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <SettingsInputs form={form} />
      <Textarea label="Certificates that are trusted there" description="PEM; those that the array’s system trusts when it is empty." autosize minRows={1} maxRows={6} {...form.getInputProps("ca")} />
      <PasswordInput label={SECRETS[form.values.kind]} description={has_secret ? "There is one; it stays when this is empty and nothing above changes." : "There is none."} autoComplete="new-password" {...form.getInputProps("secret")} />
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

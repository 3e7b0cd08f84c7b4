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

/** External directories whose users can log in. */
export function DirectoriesPanel() {
  const { data, error } = useQuery(directories());
  const [creating, setCreating] = useState(false);
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const test = useChange({
    run: (name: string) => answer(api.POST("/api/v1/directories/{name}/test", { params: { path: { name } } })),
    done: ({ message }) => message,
  });
  const columns: Column<Directory>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
    { name: "Where", key: (it) => whereOf(it.settings), cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{whereOf(it.settings)}</span> },
    { name: "Roles of groups", key: (it) => it.grants.length, cell: (it) => <Grants of={it.grants} />, wide: true },
    { name: "State", key: (it) => String(it.enabled), cell: (it) => (it.enabled ? <Dot color="teal" label="enabled" /> : <Dot color="gray" label="disabled" />) },
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
          empty={<Empty icon={Network} title="No identity providers or directories" text="Users of an OpenID Connect provider or LDAP server can log in with the roles granted to their groups." action={button} />}
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
  if (of.length === 0) return <span className="quiet">none: log-in is refused</span>;
  return <span style={{ overflowWrap: "anywhere" }}>{of.map(({ group, role }) => `${group}: ${role}`).join(", ")}</span>;
}

type GrantValues = { grants: Grant[] };

const unusable = (grants: Grant[]) => grants.some((it, at) => it.group.trim() === "" || grants.some((other, before) => before < at && other.group === it.group));

/** Groups of a directory, each with its role. */
function GrantInputs({ grants, set }: { grants: Grant[]; set: (grants: Grant[]) => void }) {
  const change = (at: number, to: Partial<Grant>) => set(grants.map((it, here) => (here === at ? { ...it, ...to } : it)));
  return (
    <Stack gap="xs" role="group" aria-label="Roles of groups">
      <Text size="sm" fw={500}>
        Roles of groups
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
          Each group needs a unique name.
        </Text>
      )}
    </Stack>
  );
}

type Kind = Settings["kind"];

/** The form's values of all kinds of directories, as typed. */
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
  issuer: of("oidc", /^https?:\/\/\S+$/, "Write a URL that begins with https://."),
  client_id: of("oidc", /./, "Copy the client ID from the provider."),
  address: of("oidc", /^https?:\/\/[^/\s]+\/?$/, "Write https:// and a name, such as https://array.example.com."),
  server: of("ldap", /^ldaps?:\/\/[^/\s]+$/, "Write ldaps:// and a name, such as ldaps://ldap.example.com."),
  base: of("ldap", /=/, "Write a distinguished name, such as ou=people,dc=example,dc=com."),
};

const SECRETS: Record<Kind, string> = { oidc: "Client secret", ldap: "Bind password" };

function SettingsInputs({ form }: { form: Pick<UseFormReturnType<Values>, "getInputProps"> & { values: Values } }) {
  const text = { autoComplete: "off", spellCheck: false };
  if (form.values.kind === "oidc") {
    return (
      <>
        <TextInput label="Issuer" description="Issuer URL of the provider." placeholder="https://id.example.com/realms/staff" {...text} required {...form.getInputProps("issuer")} />
        <TextInput label="Client ID" description="Client ID of the array at the provider." {...text} required {...form.getInputProps("client_id")} />
        <TextInput label="Address of the array" description="URL under which browsers reach the array. The redirect URI is this URL followed by /sign-in." {...text} required {...form.getInputProps("address")} />
        <TextInput label="Scopes" description="Besides openid." {...text} {...form.getInputProps("scopes")} />
        <Group grow align="flex-start">
          <TextInput label="User name claim" {...text} required {...form.getInputProps("user_claim")} />
          <TextInput label="Groups claim" {...text} required {...form.getInputProps("groups_claim")} />
        </Group>
      </>
    );
  }
  return (
    <>
      <TextInput label="Server" placeholder="ldaps://ldap.example.com" {...text} required {...form.getInputProps("server")} />
      <Switch label="STARTTLS" {...form.getInputProps("starttls", { type: "checkbox" })} />
      <TextInput label="Base DN of users" placeholder="ou=people,dc=example,dc=com" {...text} required {...form.getInputProps("base")} />
      <TextInput label="User name attribute" description="sAMAccountName in Active Directory." {...text} required {...form.getInputProps("user_attribute")} />
      <TextInput label="Base DN of groups" description="Groups are named by cn. Empty: groups from memberOf of the user, named by DN." {...text} {...form.getInputProps("group_base")} />
      <TextInput label="Bind DN" description="DN for searches. Empty: anonymous." {...text} {...form.getInputProps("bind_dn")} />
    </>
  );
}

function CreateDirectory({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm<Values & GrantValues & { name: string; secret: string }>({
    initialValues: { ...USUAL, name: "", secret: "", grants: [{ group: "", role: "admin" }] },
    validate: { name: nameError, ...RULES, grants: (grants) => (unusable(grants) ? "Each group needs a unique name." : null) },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, secret, grants, ...settings }: typeof form.values) => answer(api.POST("/api/v1/directories", { body: { name, settings: settingsOf(settings), grants, ...(secret && { secret }) } })),
    done: (made) => `Users of ${made.name} can log in. Test the connection.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Add directory" verb="Add" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" description="Shown at log-in." autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select label="Kind" data={[{ value: "oidc", label: "OpenID Connect" }, { value: "ldap", label: "LDAP" }]} allowDeselect={false} {...form.getInputProps("kind")} />
      <SettingsInputs form={form} />
      <Textarea label="Trusted certificates" description="PEM. Empty: certificates of the system." autosize minRows={1} maxRows={6} {...form.getInputProps("ca")} />
      <PasswordInput label={SECRETS[form.values.kind]} autoComplete="new-password" {...form.getInputProps("secret")} />
      <GrantInputs grants={form.values.grants} set={(grants) => form.setFieldValue("grants", grants)} />
    </FormModal>
  );
}

function ChangeDirectory({ directory: { name, settings, grants, enabled, has_secret }, onClose }: { directory: Directory; onClose: () => void }) {
  const form = useForm<Values & GrantValues & { name: string; enabled: boolean; secret: string }>({
    initialValues: { ...valuesOf(settings), name, grants, enabled, secret: "" },
    validate: { name: nameError, ...RULES, grants: (grants) => (unusable(grants) ? "Each group needs a unique name." : null) },
  });
  const save = useChange({
    run: ({ name: called, grants, enabled, secret, ...changed }: typeof form.values) =>
      answer(api.PATCH("/api/v1/directories/{name}", { params: { path: { name } }, body: { name: called, settings: settingsOf(changed), grants, enabled, ...(secret && { secret }) } })),
    done: (now) => `${now.name} is changed. Its users must log in again.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Change ${name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <SettingsInputs form={form} />
      <Textarea label="Trusted certificates" description="PEM. Empty: certificates of the system." autosize minRows={1} maxRows={6} {...form.getInputProps("ca")} />
      <PasswordInput label={SECRETS[form.values.kind]} description={has_secret ? "Empty: the stored secret stays, unless a field above changes." : "There is none."} autoComplete="new-password" {...form.getInputProps("secret")} />
      <GrantInputs grants={form.values.grants} set={(grants) => form.setFieldValue("grants", grants)} />
      <Switch label="Enabled" {...form.getInputProps("enabled", { type: "checkbox" })} />
    </FormModal>
  );
}

function DeleteDirectory({ directory: { name }, onClose }: { directory: Directory; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/directories/{name}", { params: { path: { name } } })),
    done: () => `${name} was deleted.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${name}?`} name={name} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Sessions of its users end immediately. Local users are not affected.
    </Confirm>
  );
}

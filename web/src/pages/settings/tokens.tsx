import { Alert, Button, Checkbox, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { KeySquare, Plus } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { tokens, useChange, users } from "../../api/queries";
import type { SchemaApiToken as ApiToken, SchemaRole as Role } from "../../api/schema";
import { useSession } from "../../api/session";
import { moment, utcFromNow } from "../../format";
import { Confirm } from "../../parts/confirm";
import { Terminal } from "../../parts/copy";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { DataTable, type Column } from "../../parts/table";
import { ROLES } from "./users";

const DAY = 86_400_000;
/** Validity of a new token in days; empty: without end. */
const LIVES = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "a year" },
  { value: "", label: "no expiry" },
];

export function TokensPanel() {
  const { data, error } = useQuery(tokens());
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<ApiToken>();
  const [leaving, setLeaving] = useState<ApiToken>();
  const columns: Column<ApiToken>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
    { name: "User", key: (it) => it.user, cell: (it) => it.user, wide: true },
    { name: "Role", key: (it) => it.role, cell: (it) => it.role },
    { name: "Acts for other users", key: (it) => String(it.on_behalf), cell: (it) => (it.on_behalf ? "yes" : "no"), wide: true },
    { name: "Expires", key: (it) => it.expires ?? "9", cell: (it) => <Until token={it} /> },
    { name: "Created", key: (it) => it.created, cell: (it) => <span className="quiet number">{moment(it.created)}</span>, wide: true },
    {
      name: "",
      right: true,
      cell: (it) => (
        <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Revoke ${it.name}`} onClick={() => setLeaving(it)}>
          Revoke
        </Button>
      ),
    },
  ];
  const button = (
    <Button size="compact-sm" leftSection={<Plus size={15} aria-hidden />} onClick={() => setCreating(true)}>
      Create token
    </Button>
  );
  return (
    <Panel title="API tokens" flush actions={data?.length ? button : undefined}>
      <ProblemAlert error={error} />
      {(data || !error) && (
        <DataTable
          label="API tokens"
          noun="token"
          rows={data}
          columns={columns}
          id={(it) => it.name}
          empty={<Empty icon={KeySquare} title="No API tokens yet" text="API tokens are for programs, such as scripts and monitoring systems." action={button} />}
        />
      )}
      <CreateToken opened={creating} onClose={() => setCreating(false)} onMade={setMade} />
      {made?.secret && <Secret name={made.name} secret={made.secret} onClose={() => setMade(undefined)} />}
      {leaving && <RevokeToken token={leaving} onClose={() => setLeaving(undefined)} />}
    </Panel>
  );
}

const expired = (time: string) => Date.parse(time) < Date.now();

function Until({ token: { expires } }: { token: ApiToken }) {
  if (!expires) return <span className="quiet">never</span>;
  if (expired(expires)) return <Dot color="red" label={`expired ${moment(expires)}`} />;
  return <span className="number">{moment(expires)}</span>;
}

type CreateProps = { opened: boolean; onClose: () => void; onMade: (token: ApiToken) => void };

function CreateToken({ opened, onClose, onMade }: CreateProps) {
  const who = useSession();
  const known = useQuery({ ...users(), enabled: opened });
  const form = useForm<{ name: string; user: string; role: Role; days: string; represents: boolean }>({
    initialValues: { name: "", user: who.at === "in" ? who.user : "", role: "viewer", days: "365", represents: false },
    validate: { name: nameError },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, user, role, days, represents }: typeof form.values) => {
      const expires = days === "" ? null : utcFromNow(Number(days) * DAY);
      return answer(api.POST("/api/v1/tokens", { body: { name, user, role, expires, on_behalf: represents } }));
    },
    done: (token) => `Token ${token.name} was created.`,
    then: (token) => {
      close();
      onMade(token);
    },
  });
  return (
    <FormModal opened={opened} onClose={close} title="Create token" verb="Create" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" description="Its purpose." placeholder="monitoring" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select label="Owner" data={known.data?.map((it) => it.name) ?? [form.values.user]} allowDeselect={false} searchable {...form.getInputProps("user")} />
      <Select label="Role" description="Limited by the role of the owner." data={ROLES} allowDeselect={false} {...form.getInputProps("role")} />
      <Select label="Valid for" data={LIVES} allowDeselect={false} {...form.getInputProps("days")} />
      <Checkbox
        label="Allow acting on behalf of users"
        description="For a program with users of its own. The audit log shows them beside the owner."
        {...form.getInputProps("represents", { type: "checkbox" })}
      />
    </FormModal>
  );
}

/** The secret of a new token. The array keeps only its hash, so the secret is shown once. */
function Secret({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title={`Token ${name}`} closeOnClickOutside={false}>
      <Stack gap="md">
        <Alert color="yellow">Copy it now: the array does not keep it, and it is not shown again.</Alert>
        <Terminal text={secret} label="Copy the token" />
        <Text size="sm">A program sends it with each request:</Text>
        <Terminal text={`curl ${location.origin}/api/v1/array \\\n  -H 'Authorization: Bearer ${secret}'`} label="Copy the command" />
        <Button onClick={onClose} ml="auto">
          I have it
        </Button>
      </Stack>
    </Modal>
  );
}

function RevokeToken({ token, onClose }: { token: ApiToken; onClose: () => void }) {
  const revoke = useChange({
    run: () => answer(api.DELETE("/api/v1/tokens/{name}", { params: { path: { name: token.name } } })),
    done: () => `Token ${token.name} is revoked.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Revoke ${token.name}?`} verb="Revoke" busy={revoke.isPending} error={revoke.error} onConfirm={() => revoke.mutate(undefined)}>
      Programs that use it lose access immediately.
    </Confirm>
  );
}

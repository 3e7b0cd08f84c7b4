import { Button, MultiSelect, NumberInput, PasswordInput, Select, Switch, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { BellRing, Plus } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { notificationTargets, useChange } from "../../api/queries";
import type { SchemaDestination as Destination, SchemaMailProtection as MailProtection, SchemaNotificationContent as Content, SchemaNotificationTarget as Target, SchemaSeverity as Severity } from "../../api/schema";
import { moment, plural } from "../../format";
import { Confirm } from "../../parts/confirm";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { DataTable, type Column } from "../../parts/table";

type Kind = Destination["kind"];
type Task = { verb: "change" | "delete"; target: Target };

const KINDS: { value: Kind; label: string }[] = [
  { value: "email", label: "e-mail" },
  { value: "webhook", label: "webhook" },
  { value: "syslog", label: "syslog" },
  { value: "snmp", label: "SNMP trap" },
];

const LEAST: { value: Severity; label: string }[] = [
  { value: "info", label: "all alerts" },
  { value: "warning", label: "warning and critical" },
  { value: "critical", label: "critical only" },
];

/** What syslog targets receive. */
const CONTENT: { value: Content; label: string }[] = [
  { value: "alerts", label: "alerts" },
  { value: "events", label: "events" },
  { value: "audit", label: "audit log" },
  { value: "statistics", label: "performance and capacity, once a minute" },
];

/** Notification targets. */
export function NotificationsPanel() {
  const { data, error } = useQuery(notificationTargets());
  const [creating, setCreating] = useState(false);
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const test = useChange({
    run: (name: string) => answer(api.POST("/api/v1/notification-targets/{name}/test", { params: { path: { name } } })),
    done: (_, name) => `The test notification was delivered to ${name}.`,
  });
  const columns: Column<Target>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
    { name: "Where", key: (it) => it.destination.kind, cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{whereOf(it.destination)}</span> },
    { name: "Content", key: (it) => it.content.join(), cell: (it) => it.content.join(", "), wide: true },
    { name: "Alerts", key: (it) => it.severity, cell: (it) => LEAST.find(({ value }) => value === it.severity)?.label, wide: true },
    { name: "State", key: (it) => it.failing ?? "", cell: (it) => <State target={it} /> },
    {
      name: "",
      right: true,
      cell: (target) => (
        <>
          <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Test ${target.name}`} loading={test.isPending && test.variables === target.name} onClick={() => test.mutate(target.name)}>
            Test
          </Button>
          <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Change ${target.name}`} onClick={() => setTask({ verb: "change", target })}>
            Change
          </Button>
          <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Delete ${target.name}`} onClick={() => setTask({ verb: "delete", target })}>
            Delete
          </Button>
        </>
      ),
    },
  ];
  const button = (
    <Button size="compact-sm" leftSection={<Plus size={15} aria-hidden />} onClick={() => setCreating(true)}>
      Add target
    </Button>
  );
  return (
    <Panel title="Notifications" flush actions={data?.length ? button : undefined}>
      <ProblemAlert error={test.error ?? error} />
      {(data || !error) && (
        <DataTable
          label="Notification targets"
          noun="target"
          rows={data}
          columns={columns}
          id={(it) => it.name}
          empty={<Empty icon={BellRing} title="No notification targets" text="Notification targets receive alerts when they open, escalate and close: by e-mail, webhook, syslog or SNMP." action={button} />}
        />
      )}
      <CreateTarget opened={creating} onClose={() => setCreating(false)} />
      {task?.verb === "change" && <ChangeTarget target={task.target} onClose={close} />}
      {task?.verb === "delete" && <DeleteTarget target={task.target} onClose={close} />}
    </Panel>
  );
}

function whereOf(destination: Destination): string {
  switch (destination.kind) {
    case "webhook":
      return destination.url;
    case "email":
      return `mail to ${destination.to.join(", ")}`;
    case "syslog":
      return `syslog at ${destination.host}:${destination.port}${destination.tls ? ", TLS" : ""}`;
    case "snmp":
      return `SNMP traps to ${destination.host}:${destination.port}${destination.user ? ` as ${destination.user}` : ""}`;
  }
}

function State({ target: { enabled, failing, delivered, waiting } }: { target: Target }) {
  if (!enabled) return <Dot color="gray" label="disabled" />;
  if (failing) {
    return (
      <span title={failing}>
        <Dot color="red" label={waiting > 0 ? `failing, ${plural(waiting, "notice")} waiting` : "failing"} />
      </span>
    );
  }
  return delivered ? <Dot color="teal" label={`last ${moment(delivered)}`} /> : <Dot color="teal" label="ready" />;
}

type Values = {
  name: string;
  kind: Kind;
  severity: Severity;
  url: string;
  host: string;
  port: number | string;
  tls: boolean;
  protection: MailProtection;
  user: string;
  from: string;
  to: string;
  secret: string;
  content: Content[];
};

/** Default destinations. */
const PORTS: Record<Kind, number> = { webhook: 443, email: 587, syslog: 6514, snmp: 162 };

const SECRETS: Record<Kind, { label: string; description: string } | undefined> = {
  webhook: { label: "Signature key", description: "Signs each notification in X-Ashlar-Signature." },
  email: { label: "Password", description: "Password of the mail user." },
  syslog: undefined,
  snmp: { label: "Community or passphrase", description: "With a user: passphrase of at least 8 characters. Without: community, default public." },
};

const addresses = (text: string) => text.split(/[\s,;]+/).filter(Boolean);

const contentError = (content: Content[]) => (content.length === 0 ? "Choose at least one." : null);

function destinationOf({ kind, url, host, port, tls, protection, user, from, to }: Values): Destination {
  switch (kind) {
    case "webhook":
      return { kind, url };
    case "email":
      return { kind, host, port: Number(port), protection, from, to: addresses(to), ...(user && { user }) };
    case "syslog":
      return { kind, host, port: Number(port), tls };
    case "snmp":
      return { kind, host, port: Number(port), ...(user && { user }) };
  }
}

function CreateTarget({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const needed = (says: string, kinds: Kind[]) => (text: string, { kind }: Values) => (kinds.includes(kind) && text.trim() === "" ? says : null);
  const form = useForm<Values>({
    initialValues: { name: "", kind: "email", severity: "warning", url: "", host: "", port: PORTS.email, tls: true, protection: "starttls", user: "", from: "", to: "", secret: "", content: ["alerts", "events", "audit"] },
    validate: {
      name: nameError,
      url: (url, { kind }) => (kind === "webhook" && !/^https?:\/\/\S+$/.test(url) ? "Write a URL that begins with https:// or http://." : null),
      host: needed("Give a name or an address.", ["email", "syslog", "snmp"]),
      port: (port, { kind }) => (kind === "webhook" || (Number(port) >= 1 && Number(port) <= 65535) ? null : "1 to 65535."),
      from: needed("Give the sender’s address.", ["email"]),
      to: needed("Give an address.", ["email"]),
      content: (content, { kind }) => (kind === "syslog" ? contentError(content) : null),
    },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: (values: Values) => answer(api.POST("/api/v1/notification-targets", { body: { name: values.name, destination: destinationOf(values), severity: values.severity, ...(values.kind === "syslog" && { content: values.content }), ...(SECRETS[values.kind] && values.secret && { secret: values.secret }) } })),
    done: (made) => `${made.name} was created. Send a test notification.`,
    then: close,
  });
  const { kind } = form.values;
  const secret = SECRETS[kind];
  return (
    <FormModal opened={opened} onClose={close} title="Add notification target" verb="Add" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select
        label="By"
        data={KINDS}
        allowDeselect={false}
        {...form.getInputProps("kind")}
        onChange={(value) => {
          const chosen = KINDS.find((it) => it.value === value)?.value ?? "email";
          form.setValues({ kind: chosen, port: PORTS[chosen], user: "", secret: "" });
        }}
      />
      {kind === "webhook" && <TextInput label="Address" placeholder="https://example.com/hook" autoComplete="off" spellCheck={false} required {...form.getInputProps("url")} />}
      {kind !== "webhook" && (
        <>
          <TextInput label={kind === "email" ? "Mail server" : "Name or address"} autoComplete="off" spellCheck={false} required {...form.getInputProps("host")} />
          <NumberInput label="Port" min={1} max={65535} allowDecimal={false} required {...form.getInputProps("port")} />
        </>
      )}
      {kind === "syslog" && (
        <>
          <Switch label="TLS" {...form.getInputProps("tls", { type: "checkbox" })} />
          <MultiSelect label="Content" data={CONTENT} {...form.getInputProps("content")} />
        </>
      )}
      {kind === "email" && (
        <>
          <Select label="Transport security" data={[{ value: "starttls", label: "STARTTLS" }, { value: "tls", label: "Implicit TLS" }, { value: "none", label: "none" }]} allowDeselect={false} {...form.getInputProps("protection")} />
          <TextInput label="From" placeholder="array@example.com" autoComplete="off" required {...form.getInputProps("from")} />
          <Textarea label="To" description="One address per line, or separated by commas." placeholder="ops@example.com" autosize minRows={1} required {...form.getInputProps("to")} />
          <TextInput label="Mail user" description="Empty: no log-in." autoComplete="off" {...form.getInputProps("user")} />
        </>
      )}
      {kind === "snmp" && <TextInput label="User" description="With a user: SNMPv3 with SHA-256 and AES-128. Empty: SNMPv2c." autoComplete="off" spellCheck={false} {...form.getInputProps("user")} />}
      {secret && <PasswordInput label={secret.label} description={secret.description} autoComplete="new-password" {...form.getInputProps("secret")} />}
      <Select label="Alerts" data={LEAST} allowDeselect={false} {...form.getInputProps("severity")} />
    </FormModal>
  );
}

function ChangeTarget({ target, onClose }: { target: Target; onClose: () => void }) {
  const form = useForm<{ name: string; severity: Severity; content: Content[]; enabled: boolean; secret: string }>({
    initialValues: { name: target.name, severity: target.severity, content: target.content, enabled: target.enabled, secret: "" },
    validate: { name: nameError, content: contentError },
  });
  const secret = SECRETS[target.destination.kind];
  const save = useChange({
    run: ({ secret, ...change }: typeof form.values) => answer(api.PATCH("/api/v1/notification-targets/{name}", { params: { path: { name: target.name } }, body: { ...change, ...(secret && { secret }) } })),
    done: (now) => `${now.name} is changed.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Change ${target.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select label="Alerts" data={LEAST} allowDeselect={false} {...form.getInputProps("severity")} />
      {target.destination.kind === "syslog" && <MultiSelect label="Content" data={CONTENT} {...form.getInputProps("content")} />}
      {secret && <PasswordInput label={`New ${secret.label.toLowerCase()}`} description={target.has_secret ? "Empty: the stored secret stays." : "There is none."} autoComplete="new-password" {...form.getInputProps("secret")} />}
      <Switch label="Enabled" {...form.getInputProps("enabled", { type: "checkbox" })} />
    </FormModal>
  );
}

function DeleteTarget({ target, onClose }: { target: Target; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/notification-targets/{name}", { params: { path: { name: target.name } } })),
    done: () => `${target.name} was deleted.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${target.name}?`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Queued notifications are dropped.
    </Confirm>
  );
}

import { Code, Fieldset, PasswordInput, Select, Switch, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useLocation } from "wouter";
import { answer, api, created } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaHost as Host } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { nameError } from "../../parts/size-input";

type Window = { opened: boolean; onClose: () => void };

/** Pasted initiator names: one per line, or separated by commas. */
export function initiatorsOf(text: string): string[] {
  return text
    .split(/[\s,;]+/)
    .map((word) => word.replace(/^InitiatorName=/i, ""))
    .filter(Boolean);
}

/** The error in pasted names, if any. */
export function initiatorsError(text: string): string | null {
  const names = initiatorsOf(text);
  const wrong = names.find((name) => !/^(iqn\.\d{4}-\d{2}\.\S+|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$/i.test(name));
  return wrong ? `“${wrong}” is not an iSCSI name: they look like iqn.1993-08.org.debian:01:abcdef.` : null;
}

/** The error in pasted NQNs, if any; a host needs at least one name. `others`: its names of the other protocols. */
export function nqnsError(text: string, others: string): string | null {
  const names = initiatorsOf(text);
  if (names.length === 0 && initiatorsOf(others).length === 0) return "Give an iSCSI name, an NQN or a WWPN.";
  const wrong = names.find((name) => !/^nqn\.\S+$/.test(name));
  return wrong ? `“${wrong}” is not an NQN: they look like nqn.2014-08.org.nvmexpress:uuid:….` : null;
}

/** Pasted names by protocol: iSCSI names and NQNs differ in their form. */
export function namesByKind(text: string): { initiators: string[]; nqns: string[] } {
  const names = initiatorsOf(text);
  const isNqn = (name: string) => /^nqn\./i.test(name);
  return { initiators: names.filter((it) => !isNqn(it)), nqns: names.filter(isNqn) };
}

/** The error in names of either kind, if any. */
export function namesError(text: string): string | null {
  const { initiators, nqns } = namesByKind(text);
  if (initiators.length + nqns.length === 0) return "Give an iSCSI name or an NQN.";
  return initiatorsError(initiators.join(" ")) ?? (nqns.length > 0 ? nqnsError(nqns.join(" "), "") : null);
}

/** The error in pasted WWPNs, if any. */
export function wwpnsError(text: string): string | null {
  const wrong = initiatorsOf(text).find((name) => !/^((0x)?[0-9a-f]{16}|[0-9a-f]{2}(:[0-9a-f]{2}){7})$/i.test(name));
  return wrong ? `“${wrong}” is not a WWPN: they look like 21:00:00:24:ff:00:00:01.` : null;
}

/** The form of a DH-HMAC-CHAP secret; the array checks the rest. */
const dhchapError = (secret: string) => (/^DHHC-1:0[0-3]:[A-Za-z0-9+/=]+:$/.test(secret) ? null : "A secret looks like DHHC-1:01:…:, as nvme gen-dhchap-key makes it.");

/** The form of a PSK of TLS; the array checks the rest. */
const pskError = (psk: string) => (/^NVMeTLSkey-1:0[0-2]:[A-Za-z0-9+/=]+:$/.test(psk) ? null : "A PSK looks like NVMeTLSkey-1:01:…:, as nvme gen-tls-key makes it.");

/** The length is in bytes of UTF-8, RFC 7143 12.1.4. */
const secretError = (secret: string) => {
  const bytes = new TextEncoder().encode(secret).length;
  return bytes < 12 || bytes > 255 ? "12 to 255 bytes." : null;
};

/** Creates a host, with secrets for its log-in on request. `initiator`: a name to start with. */
export function CreateHost({ opened, onClose, initiator = "" }: Window & { initiator?: string }) {
  const [, go] = useLocation();
  const form = useForm({
    initialValues: { name: "", initiators: initiator, nqns: "", wwpns: "", chap: false, user: "", secret: "", mutual: false, mutualUser: "", mutualSecret: "", dhchap: false, dhchapSecret: "", dhchapMutual: false, dhchapController: "", tls: false, psk: "" },
    validate: {
      name: nameError,
      initiators: initiatorsError,
      nqns: (nqns, { initiators, wwpns }) => nqnsError(nqns, `${initiators} ${wwpns}`),
      wwpns: wwpnsError,
      user: (user, { chap }) => (chap && !user ? "Give a user name." : null),
      secret: (secret, { chap }) => (chap ? secretError(secret) : null),
      mutualUser: (user, { chap, mutual }) => (chap && mutual && !user ? "Give a user name." : null),
      mutualSecret: (secret, values) => {
        if (!values.chap || !values.mutual) return null;
        return secret === values.secret ? "The two secrets must differ." : secretError(secret);
      },
      dhchapSecret: (secret, { dhchap }) => (dhchap ? dhchapError(secret) : null),
      dhchapController: (secret, values) => {
        if (!values.dhchap || !values.dhchapMutual) return null;
        return secret === values.dhchapSecret ? "The two secrets must differ." : dhchapError(secret);
      },
      psk: (psk, { tls }) => (tls ? pskError(psk) : null),
    },
  });
  const create = useChange({
    run: (values: typeof form.values) =>
      created(
        api.POST("/api/v1/hosts", {
          body: {
            name: values.name,
            initiators: initiatorsOf(values.initiators),
            nqns: initiatorsOf(values.nqns),
            wwpns: initiatorsOf(values.wwpns),
            ...(values.chap && { chap: { user: values.user, secret: values.secret } }),
            ...(values.chap && values.mutual && { mutual: { user: values.mutualUser, secret: values.mutualSecret } }),
            ...(values.dhchap && { dhchap_secret: values.dhchapSecret }),
            ...(values.dhchap && values.dhchapMutual && { dhchap_controller_secret: values.dhchapController }),
            ...(values.tls && { tls_psk: values.psk }),
          },
        }),
      ),
    done: (host) => `Host ${host.name} was created.`,
    then: (host) => {
      close();
      go(`/hosts/${encodeURIComponent(host.name)}`);
    },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  return (
    <FormModal opened={opened} onClose={close} title="Add host" verb="Add" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" description="Name of the server." data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <Textarea
        label="iSCSI names"
        description={<>One per line. On Linux: <Code>cat /etc/iscsi/initiatorname.iscsi</Code></>}
        placeholder="iqn.1993-08.org.debian:01:abcdef"
        autosize
        minRows={2}
        spellCheck={false}
        {...form.getInputProps("initiators")}
      />
      <Textarea
        label="NQNs"
        description={<>For NVMe/TCP, one per line. On Linux: <Code>cat /etc/nvme/hostnqn</Code></>}
        autosize
        spellCheck={false}
        {...form.getInputProps("nqns")}
      />
      <Textarea
        label="WWPNs"
        description={<>For Fibre Channel, one per line. On Linux: <Code>cat /sys/class/fc_host/host*/port_name</Code></>}
        autosize
        spellCheck={false}
        {...form.getInputProps("wwpns")}
      />
      <Switch label="Require CHAP" {...form.getInputProps("chap", { type: "checkbox" })} />
      {form.values.chap && (
        <Fieldset legend="CHAP credentials of the host">
          <TextInput label="User" autoComplete="off" required {...form.getInputProps("user")} />
          <PasswordInput label="Secret" mt="xs" autoComplete="new-password" required {...form.getInputProps("secret")} />
          <Switch mt="md" label="Mutual CHAP" {...form.getInputProps("mutual", { type: "checkbox" })} />
          {form.values.mutual && (
            <>
              <TextInput label="CHAP user of the array" mt="xs" autoComplete="off" required {...form.getInputProps("mutualUser")} />
              <PasswordInput label="CHAP secret of the array" mt="xs" autoComplete="new-password" required {...form.getInputProps("mutualSecret")} />
            </>
          )}
        </Fieldset>
      )}
      {initiatorsOf(form.values.nqns).length > 0 && <Switch label="Require DH-HMAC-CHAP over NVMe/TCP" {...form.getInputProps("dhchap", { type: "checkbox" })} />}
      {initiatorsOf(form.values.nqns).length > 0 && form.values.dhchap && (
        <Fieldset legend="DH-HMAC-CHAP">
          <PasswordInput label="DH-HMAC-CHAP secret of the host" description={<>On Linux: <Code>nvme gen-dhchap-key --hmac=1</Code></>} autoComplete="new-password" required {...form.getInputProps("dhchapSecret")} />
          <Switch mt="md" label="The array authenticates, too" {...form.getInputProps("dhchapMutual", { type: "checkbox" })} />
          {form.values.dhchapMutual && <PasswordInput label="DH-HMAC-CHAP secret of the array" mt="xs" autoComplete="new-password" required {...form.getInputProps("dhchapController")} />}
        </Fieldset>
      )}
      {initiatorsOf(form.values.nqns).length > 0 && <Switch label="Require TLS over NVMe/TCP" {...form.getInputProps("tls", { type: "checkbox" })} />}
      {initiatorsOf(form.values.nqns).length > 0 && form.values.tls && <PasswordInput label="TLS PSK of the host" description={<>On Linux: <Code>nvme gen-tls-key</Code></>} autoComplete="new-password" required {...form.getInputProps("psk")} />}
    </FormModal>
  );
}

const CHAP_KEPT = "as it is";
const CHAP_NONE = "not required";
const CHAP_NEW = "another user and secret";
const DHCHAP_NEW = "another secret";
const PSK_NEW = "another PSK";

/** Changes the name, initiators and secrets. Sessions of an initiator whose access changes end. */
export function ChangeHost({ host, opened, onClose }: Window & { host: Host }) {
  const [, go] = useLocation();
  const form = useForm({
    initialValues: { name: host.name, initiators: host.initiators.join("\n"), nqns: host.nqns.join("\n"), wwpns: host.wwpns.join("\n"), chap: CHAP_KEPT, user: host.chap_user ?? "", secret: "", dhchap: CHAP_KEPT, dhchapSecret: "", tls: CHAP_KEPT, psk: "" },
    validate: {
      name: nameError,
      initiators: initiatorsError,
      nqns: (nqns, { initiators, wwpns }) => nqnsError(nqns, `${initiators} ${wwpns}`),
      wwpns: wwpnsError,
      user: (user, { chap }) => (chap === CHAP_NEW && !user ? "Give a user name." : null),
      secret: (secret, { chap }) => (chap === CHAP_NEW ? secretError(secret) : null),
      dhchapSecret: (secret, { dhchap }) => (dhchap === DHCHAP_NEW ? dhchapError(secret) : null),
      psk: (psk, { tls }) => (tls === PSK_NEW ? pskError(psk) : null),
    },
  });
  const close = () => {
    onClose();
    form.reset();
    save.reset();
  };
  const save = useChange({
    run: ({ name, initiators, nqns, wwpns, chap, user, secret, dhchap, dhchapSecret, tls, psk }: typeof form.values) =>
      answer(
        api.PATCH("/api/v1/hosts/{name}", {
          params: { path: { name: host.name } },
          body: {
            name,
            initiators: initiatorsOf(initiators),
            nqns: initiatorsOf(nqns),
            wwpns: initiatorsOf(wwpns),
            ...(chap === CHAP_NEW && { chap: { user, secret } }),
            // The array authenticates itself only to hosts that authenticate.
            ...(chap === CHAP_NONE && { chap: null, mutual: null }),
            ...(dhchap === DHCHAP_NEW && { dhchap_secret: dhchapSecret }),
            ...(dhchap === CHAP_NONE && { dhchap_secret: null, dhchap_controller_secret: null }),
            ...(tls === PSK_NEW && { tls_psk: psk }),
            ...(tls === CHAP_NONE && { tls_psk: null }),
          },
        }),
      ),
    done: (changed) => `Host ${changed.name} is changed.`,
    then: (changed) => {
      onClose();
      save.reset();
      if (changed.name !== host.name) go(`/hosts/${encodeURIComponent(changed.name)}`);
    },
  });
  return (
    <FormModal opened={opened} onClose={close} title={`Change ${host.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <Textarea label="iSCSI names" description="Complete list, one per line." autosize minRows={2} spellCheck={false} {...form.getInputProps("initiators")} />
      <Textarea label="NQNs" description="For NVMe/TCP. Complete list, one per line." autosize spellCheck={false} {...form.getInputProps("nqns")} />
      <Textarea label="WWPNs" description="For Fibre Channel. Complete list, one per line." autosize spellCheck={false} {...form.getInputProps("wwpns")} />
      <Select label="CHAP" data={[CHAP_KEPT, CHAP_NEW, ...(host.chap_user ? [CHAP_NONE] : [])]} allowDeselect={false} {...form.getInputProps("chap")} />
      {form.values.chap === CHAP_NEW && (
        <Fieldset legend="CHAP credentials of the host">
          <TextInput label="User" autoComplete="off" required {...form.getInputProps("user")} />
          <PasswordInput label="Secret" mt="xs" autoComplete="new-password" required {...form.getInputProps("secret")} />
        </Fieldset>
      )}
      {(host.dhchap || initiatorsOf(form.values.nqns).length > 0) && <Select label="DH-HMAC-CHAP over NVMe/TCP" data={[CHAP_KEPT, DHCHAP_NEW, ...(host.dhchap ? [CHAP_NONE] : [])]} allowDeselect={false} {...form.getInputProps("dhchap")} />}
      {form.values.dhchap === DHCHAP_NEW && <PasswordInput label="DH-HMAC-CHAP secret of the host" autoComplete="new-password" required {...form.getInputProps("dhchapSecret")} />}
      {(host.tls || initiatorsOf(form.values.nqns).length > 0) && <Select label="TLS over NVMe/TCP" data={[CHAP_KEPT, PSK_NEW, ...(host.tls ? [CHAP_NONE] : [])]} allowDeselect={false} {...form.getInputProps("tls")} />}
      {form.values.tls === PSK_NEW && <PasswordInput label="TLS PSK of the host" autoComplete="new-password" required {...form.getInputProps("psk")} />}
    </FormModal>
  );
}

export function DeleteHost({ host, opened, onClose }: Window & { host: Host }) {
  const own = host.connections.filter((it) => !it.host_group).map((it) => it.volume);
  const [, go] = useLocation();
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/hosts/{name}", { params: { path: { name: host.name } } })),
    done: () => `Host ${host.name} was deleted.`,
    then: () => go("/hosts"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${host.name}?`} name={host.name} blocked={own.length > 0 && `${host.name} is connected to ${own.join(", ")}: disconnect the volumes first.`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      It can no longer log in. Volumes and their data are kept.
    </Confirm>
  );
}

import { Alert, Button, Group, Modal, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { KeyRound, Link2, Network, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { remoteArrays, replications, useChange } from "../../api/queries";
import type { SchemaLinkState as LinkState, SchemaPairingKey as PairingKey, SchemaRemoteArray as RemoteArray } from "../../api/schema";
import { bytes, exactBytes, latency, moment, parseBytes } from "../../format";
import { Act } from "../../parts/act";
import { Confirm } from "../../parts/confirm";
import { Terminal } from "../../parts/copy";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError, SizeInput } from "../../parts/size-input";
import { DataTable, type Column } from "../../parts/table";
import { limitText, parseLimits } from "./windows";

type Task = { verb: "change" | "delete"; remote: RemoteArray };

const LINKS: Record<LinkState, { color: "teal" | "gray" | "orange"; label: string }> = {
  connected: { color: "teal", label: "connected" },
  disconnected: { color: "orange", label: "disconnected" },
  unknown: { color: "gray", label: "not known yet" },
};

const addressError = (address: string) => (/^\S+:\d{1,5}$/.test(address.trim()) ? null : "Host and port, such as 10.0.0.2:8444.");

/** Least bandwidth limit in bytes per second. */
const MIN_LIMIT = 65_536;

const limitError = (text: string) => (text.trim() === "" || (parseBytes(text) ?? 0) >= MIN_LIMIT ? null : "Write 64 KiB at least, such as 50 MB, or nothing.");

/** The paired arrays, and the pairing. */
export function RemoteArraysPanel() {
  const { data, error } = useQuery(remoteArrays());
  const [pairing, setPairing] = useState(false);
  const [made, setMade] = useState<PairingKey>();
  const [task, setTask] = useState<Task>();
  const create = useChange({ run: () => answer(api.POST("/api/v1/pairing-keys")), done: () => "A pairing key was created.", then: setMade });
  const columns: Column<RemoteArray>[] = [
    { name: "Name", key: (it) => it.name, cell: (it) => <b style={{ fontWeight: 500 }}>{it.name}</b> },
    { name: "Link", key: (it) => it.link.state, cell: (it) => <Link of={it} /> },
    { name: "Address", key: (it) => it.address ?? "", cell: (it) => <span style={{ overflowWrap: "anywhere" }}>{it.address ?? <span className="quiet">only it opens connections</span>}</span>, wide: true },
    { name: "Round trip", key: (it) => it.link.rtt_us ?? -1, cell: (it) => (typeof it.link.rtt_us === "number" ? <span className="number">{latency(it.link.rtt_us)}</span> : <span className="quiet">–</span>), right: true, wide: true },
    { name: "Bandwidth limit", key: (it) => it.bandwidth_limit_now ?? 0, cell: (it) => <LimitNow of={it} />, right: true, wide: "xl" },
    { name: "Last contact", key: (it) => it.link.last ?? "", down: true, cell: (it) => <span className="quiet number">{it.link.last ? moment(it.link.last, true) : "none yet"}</span>, wide: "xl" },
    {
      name: "",
      right: true,
      cell: (remote) => (
        <May role="admin">
          <Group gap={4} justify="flex-end" wrap="nowrap">
            <Act label={`Change ${remote.name}`} icon={Pencil} onClick={() => setTask({ verb: "change", remote })} />
            <Act label={`Delete ${remote.name}`} icon={Trash2} onClick={() => setTask({ verb: "delete", remote })} />
          </Group>
        </May>
      ),
    },
  ];
  const buttons = (
    <May role="admin">
      <Group gap="xs">
        <Button variant="default" size="compact-sm" leftSection={<KeyRound size={14} aria-hidden />} loading={create.isPending} onClick={() => create.mutate(undefined)}>
          Create pairing key
        </Button>
        <Button variant="default" size="compact-sm" leftSection={<Link2 size={14} aria-hidden />} onClick={() => setPairing(true)}>
          Pair with an array
        </Button>
      </Group>
    </May>
  );
  return (
    <Panel title="Remote arrays" flush actions={data?.length ? buttons : undefined}>
      <ProblemAlert error={error ?? create.error} />
      {(data || !error) && (
        <DataTable
          label="Remote arrays"
          noun="remote array"
          rows={data}
          columns={columns}
          id={(it) => it.serial}
          empty={<Empty icon={Network} title="No remote arrays" text="Create a pairing key on the array that listens, and enter it on the other one. Each then trusts the certificate of the other." action={buttons} />}
        />
      )}
      <PairRemoteArray opened={pairing} onClose={() => setPairing(false)} />
      {made && <Key of={made} onClose={() => setMade(undefined)} />}
      {task?.verb === "change" && <ChangeRemoteArray remote={task.remote} onClose={() => setTask(undefined)} />}
      {task?.verb === "delete" && <DeleteRemoteArray remote={task.remote} onClose={() => setTask(undefined)} />}
    </Panel>
  );
}

/** The limit that applies now, with a note about the limits of other times. */
function LimitNow({ of: { bandwidth_limit_now: now, bandwidth_windows: windows } }: { of: RemoteArray }) {
  return (
    <>
      {typeof now === "number" ? <span className="number">{bytes(now)}/s</span> : <span className="quiet">none</span>}
      {windows.length > 0 && <span className="quiet"> now</span>}
    </>
  );
}

function Link({ of: { link } }: { of: RemoteArray }) {
  return (
    <>
      <Dot {...LINKS[link.state]} />
      {link.problem && (
        <Text size="xs" className="quiet" style={{ overflowWrap: "anywhere" }}>
          {link.problem}
        </Text>
      )}
    </>
  );
}

/** A pairing key. It is shown only once. */
function Key({ of: { key, port, expires }, onClose }: { of: PairingKey; onClose: () => void }) {
  return (
    <Modal opened onClose={onClose} title="Pairing key" closeOnClickOutside={false}>
      <Stack gap="md">
        <Alert color="yellow">
          An array whose administrator has this key can be paired with this one. It can be used once, until {moment(expires)}, and is not shown again.
        </Alert>
        <Terminal text={key} label="Copy the key" />
        <Text size="sm">On the other array choose “Pair with an array”, and enter the key with an address of this array and port {port}.</Text>
        <Button onClick={onClose} ml="auto">
          I have it
        </Button>
      </Stack>
    </Modal>
  );
}

function PairRemoteArray({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm({ initialValues: { address: "", key: "", name: "" }, validate: { address: addressError, key: (key) => (key.trim() === "" ? "Enter the key that was created on the other array." : null), name: (name) => (name === "" ? null : nameError(name)) } });
  const close = () => {
    onClose();
    form.reset();
    pair.reset();
  };
  const pair = useChange({
    run: ({ address, key, name }: typeof form.values) => answer(api.POST("/api/v1/remote-arrays", { body: { address: address.trim(), key: key.trim(), ...(name !== "" && { name }) } })),
    done: (made) => `${made.name} is paired with this array.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Pair with an array" verb="Pair" busy={pair.isPending} error={pair.error} onSubmit={form.onSubmit((values) => pair.mutate(values))}>
      <TextInput label="Address" description="Where the other array listens for arrays." placeholder="10.0.0.2:8444" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("address")} />
      <Textarea label="Pairing key" description="From the other array: Replication, “Create pairing key”." autosize minRows={2} autoComplete="off" spellCheck={false} required {...form.getInputProps("key")} />
      <TextInput label="Name" description="Name of the other array here. Empty: its own name." autoComplete="off" spellCheck={false} {...form.getInputProps("name")} />
    </FormModal>
  );
}

function ChangeRemoteArray({ remote, onClose }: { remote: RemoteArray; onClose: () => void }) {
  const form = useForm({ initialValues: { name: remote.name, address: remote.address ?? "", limit: remote.bandwidth_limit ? exactBytes(remote.bandwidth_limit) : "", windows: remote.bandwidth_windows.map(limitText).join("\n") }, validate: { windows: (text) => (parseLimits(text) ? null : "Write one window a line, such as mon-fri 08:00-18:00 = 10 MiB."), name: nameError, address: (address) => (address.trim() === "" ? null : addressError(address)), limit: limitError } });
  const save = useChange({
    run: ({ name, address, limit, windows }: typeof form.values) => {
      const body = { address: address.trim() === "" ? null : address.trim(), bandwidth_limit: parseBytes(limit) ?? null, bandwidth_windows: parseLimits(windows) ?? [], ...(name !== remote.name && { name }) };
      return answer(api.PATCH("/api/v1/remote-arrays/{name}", { params: { path: { name: remote.name } }, body }));
    },
    done: (now) => `Remote array ${now.name} is changed.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Change ${remote.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <TextInput label="Name" data-autofocus autoComplete="off" spellCheck={false} required {...form.getInputProps("name")} />
      <TextInput label="Address" description="Empty: only the other array opens connections, and nothing can be replicated to it." placeholder="10.0.0.2:8444" autoComplete="off" spellCheck={false} {...form.getInputProps("address")} />
      <SizeInput label="Bandwidth limit per second" required={false} description="Maximum rate of replications to it over all links, such as 50 MB. Empty: no limit." {...form.getInputProps("limit")} />
      <Textarea label="Windows with another limit" description="One per line: mon-fri 08:00-18:00 = 10 MiB, or daily 22:00-06:00 = none. Times are those of this array’s time zone." autosize minRows={2} autoComplete="off" spellCheck={false} {...form.getInputProps("windows")} />
    </FormModal>
  );
}

function DeleteRemoteArray({ remote, onClose }: { remote: RemoteArray; onClose: () => void }) {
  const users = (useQuery(replications()).data ?? []).filter((it) => it.remote_array === remote.name).map((it) => it.name);
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/remote-arrays/{name}", { params: { path: { name: remote.name } } })),
    done: () => `${remote.name} is not trusted any more.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${remote.name}?`} name={remote.name} blocked={users.length > 0 && `${remote.name} is used by ${users.join(", ")}: delete the replications first.`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Its certificate is not trusted any more. It trusts this array until this one is deleted there as well.
    </Confirm>
  );
}

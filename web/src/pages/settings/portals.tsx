import { Button, Checkbox, NumberInput, Select, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { EthernetPort, Plus } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { controllers, portals, useChange } from "../../api/queries";
import type { SchemaPortalState as State, SchemaTargetPortal as Portal } from "../../api/schema";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { PROTOCOLS } from "../hosts/commands";
import { DataTable, type Column } from "../../parts/table";


const STATES: Record<State, { color: "teal" | "gray" | "red"; label: string }> = {
  listening: { color: "teal", label: "listens" },
  down: { color: "red", label: "can’t listen" },
  elsewhere: { color: "gray", label: "on its controller" },
};

/** The portals: those of the options, and those added here. */
export function PortalsPanel() {
  const { data, error } = useQuery(portals());
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Portal>();
  const button = (
    <May role="admin">
      <Button size="compact-sm" leftSection={<Plus size={15} aria-hidden />} onClick={() => setAdding(true)}>
        Add portal
      </Button>
    </May>
  );
  const columns: Column<Portal>[] = [
    { name: "Number", key: (it) => it.number, cell: (it) => <span className="number">{it.number}</span>, right: true },
    { name: "Address", key: (it) => it.address, cell: (it) => <span className="number">{it.address}</span> },
    { name: "Protocol", key: (it) => it.protocol, cell: (it) => `${PROTOCOLS[it.protocol]}${it.tls ? ", TLS" : ""}` },
    { name: "Controller", key: (it) => it.controller, cell: (it) => <ControllerOf portal={it} />, right: true, wide: "xl" },
    { name: "State", key: (it) => it.state, cell: (it) => <StateOf portal={it} /> },
    { name: "Hosts", key: (it) => it.hosts.length, cell: (it) => (it.hosts.length > 0 ? it.hosts.join(", ") : <span className="quiet">none</span>), wide: true },
    {
      name: "",
      right: true,
      cell: (it) =>
        it.by_option ? (
          <span className="quiet">option of the start</span>
        ) : (
          <May role="admin">
            <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Remove ${it.address}`} onClick={() => setRemoving(it)}>
              Remove
            </Button>
          </May>
        ),
    },
  ];
  return (
    <Panel title="Portals" flush actions={button}>
      <ProblemAlert error={error} />
      {(data || !error) && <DataTable label="Portals" noun="portal" rows={data} columns={columns} id={(it) => `${it.controller}-${it.number}`} empty={<Empty icon={EthernetPort} title="No portals" text="Without a portal no host reaches the array." />} />}
      {adding && <AddPortal onClose={() => setAdding(false)} />}
      {removing && <RemovePortal portal={removing} onClose={() => setRemoving(undefined)} />}
    </Panel>
  );
}

/** The controller of a portal, and the serving controller if its address moves. */
function ControllerOf({ portal: { controller, moves, served_by } }: { portal: Portal }) {
  return (
    <>
      <span className="number">{controller}</span>
      {moves && <span className="quiet">{served_by === controller ? ", moves" : `, served by ${served_by}`}</span>}
    </>
  );
}

function StateOf({ portal: { state, reason } }: { portal: Portal }) {
  return (
    <>
      <Dot {...STATES[state]} />
      {reason && (
        <Text size="xs" className="quiet">
          {reason}
        </Text>
      )}
    </>
  );
}

type Values = { address: string; protocol: "iscsi" | "nvme-tcp"; controller: number | string; tls: boolean; moves: boolean; force: boolean };

function AddPortal({ onClose }: { onClose: () => void }) {
  const several = (useQuery(controllers()).data?.length ?? 1) > 1;
  const form = useForm<Values>({
    initialValues: { address: "", protocol: "iscsi", controller: "", tls: false, moves: false, force: false },
    validate: { address: (it) => (it.trim() === "" ? "Which address?" : null) },
  });
  const add = useChange({
    run: ({ address, protocol, controller, tls, moves, force }: Values) => answer(api.POST("/api/v1/portals", { body: { address: address.trim(), protocol, force, moves, tls: tls && protocol === "nvme-tcp", ...(controller !== "" && { controller: Number(controller) }) } })),
    done: (made) => `Portal ${made.address} was added.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title="Add portal" verb="Add" busy={add.isPending} error={add.error} onSubmit={form.onSubmit((values) => add.mutate(values))}>
      <TextInput label="Address" description="Of this server, such as 10.0.0.1, 10.0.0.1:3260 or [fd00::1]:3260." autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("address")} />
      <Select label="Protocol" data={[{ value: "iscsi", label: PROTOCOLS.iscsi }, { value: "nvme-tcp", label: PROTOCOLS["nvme-tcp"] }]} allowDeselect={false} {...form.getInputProps("protocol")} />
      {form.values.protocol === "nvme-tcp" && <Checkbox label="Require TLS" description="Only hosts with a TLS PSK can use the portal." {...form.getInputProps("tls", { type: "checkbox" })} />}
      {several && <NumberInput label="Controller" description="Empty: the home." min={1} max={16} allowDecimal={false} {...form.getInputProps("controller")} />}
      {several && <Checkbox label="Let the address move" description="The home serves it while the controller does not. It must not be configured on a machine." {...form.getInputProps("moves", { type: "checkbox" })} />}
      <Checkbox label="Add it also if it can’t listen now" description="For a network that comes up later: the array retries every second." {...form.getInputProps("force", { type: "checkbox" })} />
    </FormModal>
  );
}

function RemovePortal({ portal: { number, address, hosts }, onClose }: { portal: Portal; onClose: () => void }) {
  const form = useForm({ initialValues: { force: false, cut_off: "" } });
  const remove = useChange({
    run: (query: { force: boolean; cut_off: string }) => answer(api.DELETE("/api/v1/portals/{number}", { params: { path: { number: `${number}` }, query } })),
    done: () => `Portal ${address} was removed.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Remove portal ${address}?`} verb="Remove" busy={remove.isPending} error={remove.error} onSubmit={form.onSubmit((values) => remove.mutate(values))}>
      <Text size="sm">{hosts.length > 0 ? `It is used by ${hosts.join(", ")}.` : "No host uses it."} Its number is not soon that of another portal.</Text>
      {hosts.length > 0 && (
        <>
          <Checkbox label="Ask the hosts to log out" {...form.getInputProps("force", { type: "checkbox" })} />
          <TextInput label="Hosts that may lose their last path" description="Names separated by commas. These hosts lose access to their volumes." autoComplete="off" spellCheck={false} {...form.getInputProps("cut_off")} />
        </>
      )}
    </FormModal>
  );
}

/** The administrator's actions on a replication. Each asks first and names its effect on both arrays. */
import { Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useLocation } from "wouter";
import { answer, api } from "../../api/client";
import { replicationPoints, useChange } from "../../api/queries";
import type { SchemaReplication as Replication, SchemaRole as Role } from "../../api/schema";
import { count, moment } from "../../format";
import { Confirm } from "../../parts/confirm";
import { subject } from "./state";

export type Verb = "Test failover" | "Stop test" | "Promote" | "Demote" | "Reverse" | "Delete";

/** The role that may start the action. */
export const ROLES: Record<Verb, Role> = { "Test failover": "operator", "Stop test": "operator", Promote: "admin", Demote: "admin", Reverse: "admin", Delete: "admin" };

/** Whether the source may still accept writes that the target lacks. */
const isForced = ({ role, progress }: Replication) => role === "source" || progress.demotion !== "complete";

/** The actions that are possible now. */
export function verbs({ role, progress: { state, demotion, last_point: point }, test_volumes: tested }: Replication): Verb[] {
  const source: Verb[] = demotion ? ["Promote"] : ["Demote"];
  const promoted = state === "promoted" || state === "promoting" || state === "split";
  const target: Verb[] = [...(tested.length > 0 ? (["Stop test"] as const) : typeof point === "number" ? (["Test failover"] as const) : []), ...(state === "promoted" ? (["Reverse"] as const) : []), ...(promoted ? (["Demote"] as const) : typeof point === "number" ? (["Promote"] as const) : [])];
  return [...(role === "source" ? source : target), "Delete"];
}

export function TaskDialog({ verb, replication, onClose }: { verb: Verb; replication: Replication; onClose: () => void }) {
  const [, go] = useLocation();
  const params = { path: { name: replication.name } };
  const [chosen, setChosen] = useState<string | null>(null);
  const chooses = replication.role === "target" && (verb === "Test failover" || verb === "Promote");
  const points = useQuery({ ...replicationPoints(replication.name), enabled: chooses });
  const point = chosen === null ? null : Number(chosen);
  // An older point loses all later writes.
  const force = isForced(replication) || (point !== null && point !== replication.progress.last_point);
  const loses = replication.role === "target" || replication.progress.state === "split";
  const change = useChange({
    run: async () => {
      if (verb === "Test failover") await answer(api.POST("/api/v1/replications/{name}/test-failover", { params, body: { hosts: [], host_groups: [], point } }));
      else if (verb === "Stop test") await answer(api.DELETE("/api/v1/replications/{name}/test-failover", { params }));
      else if (verb === "Promote") await answer(api.POST("/api/v1/replications/{name}/promote", { params, body: { force, point } }));
      else if (verb === "Demote") await answer(api.POST("/api/v1/replications/{name}/demote", { params, body: { force: loses } }));
      else if (verb === "Reverse") await answer(api.POST("/api/v1/replications/{name}/reverse", { params }));
      else await answer(api.DELETE("/api/v1/replications/{name}", { params }));
    },
    done: () => DONE[verb](replication.name),
    then: () => {
      onClose();
      if (verb === "Delete") go("/replications");
    },
  });
  // An action that may lose data asks for the name.
  const asks = verb === "Delete" || (verb === "Promote" && force) || (verb === "Demote" && loses);
  return (
    <Confirm opened onClose={onClose} title={`${verb}: ${replication.name}?`} {...(asks && { name: replication.name })} verb={verb} busy={change.isPending} error={change.error} onConfirm={() => change.mutate(undefined)}>
      <Stack gap="sm">
        <span>{text(verb, replication)}</span>
        {chooses && (
          <Select
            label="Point"
            placeholder="The newest one"
            data={(points.data ?? []).filter((it) => it.complete).map((it) => ({ value: String(it.number), label: `${count(it.number)}, taken ${moment(it.taken, true)}` })).reverse()}
            value={chosen}
            onChange={setChosen}
            limit={100}
            searchable
            clearable
          />
        )}
      </Stack>
    </Confirm>
  );
}

const DONE: Record<Verb, (name: string) => string> = {
  "Test failover": (name) => `The failover of ${name} is being tested: connect the clones to hosts.`,
  "Stop test": (name) => `The test of ${name} has ended, and its clones are deleted.`,
  Promote: (name) => `${name} is promoted.`,
  Demote: (name) => `${name} is demoted.`,
  Reverse: (name) => `${name} is reversed: this array is the source.`,
  Delete: (name) => `Replication ${name} was deleted on this array.`,
};

function text(verb: Verb, replication: Replication): ReactNode {
  const { role, remote_array: remote, test_volumes: tested } = replication;
  const what = subject(replication);
  switch (verb) {
    case "Test failover":
      return <>Clones of the last complete point are created, for hosts to use. Replication continues, and the source notices nothing.</>;
    case "Stop test":
      return <>{tested.join(", ")} are deleted with what was written to them. Disconnect them from hosts first.</>;
    case "Promote":
      if (role === "source") return <>The volumes of {what} take writes again, and are replicated. Do this only if {remote} was not promoted: otherwise both arrays take writes.</>;
      if (!isForced(replication)) return <>The source was demoted, and this array has all of its data. Volumes of the last complete point are created, for hosts to use.</>;
      return <>{remote} may still take writes: make sure that no host writes there. What was written after the last complete point is not here, and is lost. Volumes of that point are created, for hosts to use.</>;
    case "Demote":
      if (role === "target") return <>The promoted volumes become read-only, and this array loses what was written to them: the source does not have it. They stay until they are deleted, and points of {remote} follow again.</>;
      if (replication.progress.state === "split") return <>This array loses what was written since the last complete point: {remote} does not have it. The volumes of {what} stay, read-only.</>;
      return <>The volumes of {what} become read-only, and a last point is transferred to {remote}, which can be promoted without loss then. Stop the application first.</>;
    case "Reverse":
      return <>This array becomes the source of {what}, and {remote} its target, which has to be demoted. What changes since the last common point is transferred. The volumes on {remote} stay read-only until a promotion gives them the content of a newer point.</>;
    case "Delete":
      return <>Points of {what} on this array are deleted, and nothing is replicated any more. Volumes stay. Delete it on {remote} as well.</>;
  }
}

/** Work of the plug-in's server that continues after the request: its steps, and how it ended. */
import { Alert, Button, Group, Loader, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, CircleDashed, CircleX, Undo2 } from "lucide-react";
import { useEffect } from "react";
import type { Refusal } from "../api/refusal";
import { ProblemAlert } from "../parts/problem";
import { usePlace } from "./place";
import type { Change, Progress, Work } from "./server";

/** Milliseconds between requests while the work runs. */
const ASK_MS = 700;

/** Begins work, and follows it. */
export function useWork<Input>(path: string, body: (input: Input) => unknown) {
  const { server, refresh } = usePlace();
  const client = useQueryClient();
  const begin = useMutation<Work, Refusal, Input>({ mutationFn: (input) => server.ask<Work>(path, body(input)) });
  const id = begin.data?.id;
  const follow = useQuery({
    queryKey: ["plugin", "work", id],
    queryFn: ({ signal }) => server.ask<Work>(`work/${id}`, undefined, signal),
    enabled: id !== undefined,
    refetchInterval: ({ state }) => (state.data && state.data.state !== "running" ? false : ASK_MS),
  });
  const work = follow.data ?? begin.data;
  const ended = work !== undefined && work.state !== "running";
  useEffect(() => {
    if (!ended) return;
    refresh();
    void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] !== "work" });
    // eslint-disable-next-line react-hooks/exhaustive-deps -- once, when it ends
  }, [ended]);
  return { begin, work, ended, error: begin.error ?? follow.error };
}

const SIGNS = { begins: Loader, done: CircleCheck, failed: CircleX, undone: Undo2, stays: CircleDashed } as const;
const WORDS: Record<Progress["state"], string> = { begins: "under way", done: "done", failed: "failed", undone: "undone", stays: "still in effect" };

export function WorkProgress({ work, error, onClose }: { work: Work; error: unknown; onClose: () => void }) {
  return (
    <Stack gap="md">
      <ul className="plain-fieldset" aria-label="Steps" style={{ listStyle: "none" }}>
        {work.steps.map((it) => (
          <Step key={it.number} of={it} />
        ))}
      </ul>
      {work.changes && <Changes of={work.changes} />}
      <ProblemAlert error={error} />
      {work.state === "done" && (
        <Alert color="teal" variant="light" icon={<CircleCheck size={18} />} title={work.title} role="status">
          Done.
        </Alert>
      )}
      {work.state === "failed" && (
        <Alert color="red" variant="light" icon={<CircleX size={18} />} title={`${work.title}: failed`} role="alert">
          {work.reason}
        </Alert>
      )}
      <Group justify="space-between">
        <Text size="xs" className="quiet">
          {work.state === "running" ? "It continues if you close this window; vCenter shows it among its tasks." : ""}
        </Text>
        <Button variant="default" onClick={onClose}>
          Close
        </Button>
      </Group>
    </Stack>
  );
}

function Step({ of: { step, state, reason } }: { of: Progress }) {
  const Sign = SIGNS[state];
  return (
    <li style={{ display: "flex", gap: 10, alignItems: "baseline", padding: "3px 0" }}>
      <span style={{ flex: "none", width: 16 }} aria-hidden>
        <Sign size={14} />
      </span>
      <Text size="sm">
        {step} <span className="quiet">{WORDS[state]}{reason ? `: ${reason}` : ""}</span>
      </Text>
    </li>
  );
}

/** Changes of hosts, each with its result. */
export function Changes({ of }: { of: Change[] }) {
  return (
    <ul aria-label="Changes" style={{ margin: 0, paddingLeft: 18, fontSize: "var(--mantine-font-size-sm)" }}>
      {of.map((it) => (
        <li key={`${it.host} ${it.setting} ${it.object}`}>
          {it.host}: {it.setting} {it.object} {it.from} → <b>{it.to}</b>{" "}
          <span className="quiet">
            {it.outcome}
            {it.reboot && ", in force after a reboot"}
            {it.error && `: ${it.error}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

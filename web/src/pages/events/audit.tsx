import { Button, Modal, Stack, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { ClipboardList } from "lucide-react";
import { useMemo, useState } from "react";
import { audit } from "../../api/queries";
import type { SchemaAudit as Audit, SchemaAuditChange as Change } from "../../api/schema";
import { moment } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";
import { Older } from "./events";

const columns = (choose: (entry: Audit) => void): Column<Audit>[] => [
  { name: "Time", key: (it) => it.id, down: true, cell: (it) => <span className="number quiet">{moment(it.time, true)}</span> },
  { name: "User", key: (it) => it.user, cell: (it) => it.user },
  { name: "Origin", key: (it) => it.origin, cell: (it) => <span className="quiet">{it.origin}</span>, wide: true },
  { name: "Action", key: (it) => what(it), cell: (it) => <span className="message">{what(it)}</span>, main: true },
  { name: "Outcome", key: (it) => it.outcome, cell: (it) => <Dot color={it.outcome === "done" ? "teal" : it.outcome === "refused" ? "orange" : "red"} label={it.outcome} /> },
  {
    name: "",
    right: true,
    cell: (it) => (
      <Button variant="subtle" color="gray" size="compact-sm" onClick={() => choose(it)} aria-label={`Details of ${what(it)}, ${moment(it.time, true)}`}>
        Details
      </Button>
    ),
  },
];

export function AuditPage() {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(audit());
  const rows = useMemo(() => data?.pages.flat(), [data]);
  const [chosen, setChosen] = useState<Audit>();
  return (
    <Page title="Audit log">
      {data || !error ? (
        <Panel flush>
          <DataTable
            label="Audit log"
            noun="entry"
            many="entries"
            rows={rows}
            columns={columns(setChosen)}
            cards
            id={(it) => `${it.id}`}
            text={(it) => `${it.user} ${it.origin} ${it.action} ${it.detail} ${it.outcome}`}
            empty={<Empty icon={ClipboardList} title="No changes" text="Every change is recorded here with its user, origin and previous values." />}
          />
          {hasNextPage && <Older busy={isFetchingNextPage} onClick={() => void fetchNextPage()} />}
        </Panel>
      ) : (
        <ProblemAlert error={error} />
      )}
      <Modal opened={chosen !== undefined} onClose={() => setChosen(undefined)} title={chosen && what(chosen)} size="lg">
        {chosen && <Details entry={chosen} />}
      </Modal>
    </Page>
  );
}

function Details({ entry }: { entry: Audit }) {
  return (
    <Stack gap="md">
      <dl className="facts">
        <dt>Time</dt>
        <dd className="number">{moment(entry.time, true)}</dd>
        <dt>User</dt>
        <dd>
          {entry.user} from {entry.origin}
        </dd>
        <dt>Outcome</dt>
        <dd>
          {entry.outcome}
          {entry.message && `: ${entry.message}`}
        </dd>
        <dt>Request</dt>
        <dd>
          <span style={{ overflowWrap: "anywhere" }}>{entry.detail}</span>
        </dd>
      </dl>
      {entry.changes.map((change) => (
        <div key={change.record}>
          <Text size="sm" fw={500} mb={4} style={{ overflowWrap: "anywhere" }}>
            {change.noun ? `${change.noun} ${change.name ?? ""}` : change.record}
          </Text>
          <div className="terminal" tabIndex={0} role="region" aria-label={`Before and after of ${change.record}`}>
            <pre>
              {differences(change).map(({ sign, text }, index) => (
                <span key={index} style={{ display: "block" }}>
                  {sign} {text}
                </span>
              ))}
            </pre>
          </div>
        </div>
      ))}
    </Stack>
  );
}

type Line = { sign: " " | "-" | "+"; text: string };

/** Verb, noun and object; entries of older versions have a name only. */
const what = (it: Audit) => (it.verb ? [it.verb, it.noun, it.object].filter(Boolean).join(" ") : it.action);

/** The changed fields, before and after; for entries of older versions, from a comparison of the records. */
export function differences({ before, after, fields }: Pick<Change, "before" | "after" | "fields">): Line[] {
  const lines = (name: string, old: unknown, now: unknown): Line[] => {
    const line = (sign: Line["sign"], value: unknown): Line => ({ sign, text: `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}` });
    return [...(old == null ? [] : [line("-", old)]), ...(now == null ? [] : [line("+", now)])];
  };
  if (fields.length > 0) return fields.flatMap((it) => lines(it.field, it.before, it.after));
  const values = (value: unknown) => (typeof value === "object" && value !== null ? new Map<string, unknown>(Object.entries(value)) : new Map<string, unknown>());
  const [old, now] = [values(before), values(after)];
  const same = (name: string) => JSON.stringify(old.get(name)) === JSON.stringify(now.get(name));
  return [...new Set([...old.keys(), ...now.keys()])].filter((name) => !same(name)).flatMap((name) => lines(name, old.get(name), now.get(name)));
}

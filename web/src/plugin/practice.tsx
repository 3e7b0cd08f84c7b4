/**
 * Settings of a host, or of all hosts of a cluster: their comparison with the recommended settings, and their change.
 */
import { Alert, Button, Checkbox, Group, Modal, SegmentedControl, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, Info, ListChecks, TriangleAlert, Wrench } from "lucide-react";
import { useState } from "react";
import { plural } from "../format";
import { Dot } from "../parts/dot";
import { Empty } from "../parts/empty";
import { Form } from "../parts/form";
import { May } from "../parts/may";
import { Page } from "../parts/page";
import { Panel } from "../parts/panel";
import { ProblemAlert } from "../parts/problem";
import { DataTable, type Column } from "../parts/table";
import { usePlace } from "./place";
import type { Change, Finding, Report } from "./server";
import { useWork, WorkProgress } from "./work";

const SEVERITIES = ["critical", "warning", "info"];
const COLOURS = { critical: "red", warning: "orange", info: "gray" } as const;
const VERDICTS = { ok: { color: "teal", label: "as recommended" }, deviates: { color: "orange", label: "deviates" }, advice: { color: "gray", label: "to be decided" }, unknown: { color: "red", label: "not known" } } as const;

const COLUMNS: Column<Finding>[] = [
  { name: "Severity", key: (it) => SEVERITIES.indexOf(it.severity), cell: (it) => <Dot color={COLOURS[it.severity]} label={it.severity} />, wide: true },
  { name: "Host", key: (it) => it.host, cell: (it) => it.host },
  {
    name: "Setting",
    key: (it) => it.title,
    cell: (it) => (
      <>
        {it.title} {it.object && <span className="quiet">{it.object}</span>}
        <Text size="xs" className="quiet">
          {it.why}
          {it.reboot && " In force after a reboot."}
        </Text>
      </>
    ),
  },
  { name: "Current", key: (it) => it.current, cell: (it) => it.current },
  { name: "Recommended", key: (it) => it.recommended, cell: (it) => it.recommended },
  { name: "Verdict", key: (it) => it.verdict, cell: (it) => <Dot {...VERDICTS[it.verdict]} label={it.optional && it.verdict === "deviates" ? "deviates (optional)" : VERDICTS[it.verdict].label} /> },
];

const counts = (it: Finding) => it.verdict === "deviates" && !it.optional;

export function PracticeView() {
  const { server, about, array } = usePlace();
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ["plugin", "practice", array],
    queryFn: ({ signal }) => server.ask<Report>(`practice?array=${encodeURIComponent(array)}`, undefined, signal),
    // The server reads every host.
    staleTime: Infinity,
  });
  const [all, setAll] = useState(false);
  const [fixing, fix] = useState(false);
  const wrong = data?.findings.filter(counts).length ?? 0;
  const actions = (
    <>
      <Button variant="default" leftSection={<ListChecks size={16} aria-hidden />} loading={isFetching} onClick={() => void refetch()}>
        Check again
      </Button>
      <May>
        <Button leftSection={<Wrench size={16} aria-hidden />} disabled={!data?.findings.some((it) => it.verdict === "deviates" && it.fixable)} onClick={() => fix(true)}>
          Fix
        </Button>
      </May>
    </>
  );
  return (
    <Page title={`Best practices of ${about.name}`} actions={actions}>
      <Stack gap="md">
        <ProblemAlert error={error} />
        {!data && !error && <Skeleton height={180} />}
        {data && (
          <>
            <Summary report={data} wrong={wrong} />
            <Panel flush>
              <DataTable
                key={String(all)}
                label="Settings"
                noun="setting"
                rows={data.findings.filter((it) => all || it.verdict !== "ok")}
                columns={COLUMNS}
                id={(it) => `${it.host} ${it.setting} ${it.object}`}
                text={(it) => `${it.host} ${it.setting} ${it.title} ${it.object}`}
                filters={[{ label: "Host", of: (it) => [it.host] }]}
                tools={<SegmentedControl size="xs" aria-label="Settings that are shown" value={all ? "all" : "some"} onChange={(value) => setAll(value === "all")} data={[{ value: "some", label: "Deviations" }, { value: "all", label: "All" }]} />}
                empty={<Empty icon={CircleCheck} title="Every setting is as recommended" text="Nothing deviates on the hosts that were read." />}
              />
            </Panel>
          </>
        )}
        <Modal opened={fixing} onClose={() => fix(false)} title={`Change settings of ${about.name}`} size="lg">
          <Fix onClose={() => fix(false)} onChanged={() => void refetch()} />
        </Modal>
      </Stack>
    </Page>
  );
}

function Summary({ report, wrong }: { report: Report; wrong: number }) {
  return (
    <>
      {report.unread.length > 0 && (
        <Alert color="red" variant="light" icon={<TriangleAlert size={18} />} title={`${plural(report.unread.length, "host was", "hosts were")} not read`} role="alert">
          {report.unread.join("; ")}
        </Alert>
      )}
      {report.notes.length > 0 && (
        <Alert color="gray" variant="light" icon={<Info size={18} />} title="Notes">
          {report.notes.join("; ")}
        </Alert>
      )}
      <Text size="sm" role="status">
        {plural(report.hosts?.length ?? 0, "host")} read, {plural(wrong, "deviation")}.
      </Text>
    </>
  );
}

/** Lists the possible changes by name, then makes the chosen ones. */
function Fix({ onClose, onChanged }: { onClose: () => void; onChanged: () => void }) {
  const { server, array } = usePlace();
  const plan = useQuery({ queryKey: ["plugin", "plan", array], queryFn: () => server.ask<Report>("practice", { array }), gcTime: 0 });
  const [left, leave] = useState<ReadonlySet<string>>(new Set());
  const { begin, work, ended, error } = useWork("practice", (settings: string[]) => ({ array, settings, sure: true }));
  if (work)
    return (
      <WorkProgress
        work={work}
        error={error}
        onClose={() => {
          onClose();
          if (ended) onChanged();
        }}
      />
    );
  if (plan.error) return <ProblemAlert error={plan.error} />;
  if (!plan.data) return <Skeleton height={120} />;
  const changes = plan.data.changes ?? [];
  const settings = [...new Set(changes.map((it) => it.setting))];
  const chosen = settings.filter((it) => !left.has(it));
  const toggle = (setting: string) => leave(new Set(left.has(setting) ? [...left].filter((it) => it !== setting) : [...left, setting]));
  if (settings.length === 0) return <Text size="sm">There is nothing to change but optional settings: `ashlar-vsphere apply --settings` changes those that are named.</Text>;
  return (
    <Form
      verb={`Change ${plural(chosen.length, "setting")}`}
      busy={begin.isPending}
      error={error}
      onClose={onClose}
      onSubmit={(event) => {
        event.preventDefault();
        if (chosen.length > 0) begin.mutate(chosen);
      }}
    >
      <Text size="sm">These settings would be changed, one host after the other. Each host is read again before the next one; after a failure nothing more is changed.</Text>
      {settings.map((setting) => (
        <Group key={setting} align="flex-start" wrap="nowrap" gap="sm">
          <Checkbox aria-label={`Change ${setting}`} checked={!left.has(setting)} onChange={() => toggle(setting)} mt={2} />
          <div>
            <Text size="sm" fw={500}>
              {setting}
            </Text>
            <Planned of={changes.filter((it) => it.setting === setting)} />
          </div>
        </Group>
      ))}
    </Form>
  );
}

function Planned({ of }: { of: Change[] }) {
  return (
    <ul style={{ margin: 0, paddingLeft: 18, fontSize: "var(--mantine-font-size-xs)" }} className="quiet">
      {of.map((it) => (
        <li key={`${it.host} ${it.object}`}>
          {it.host} {it.object}: {it.from} → {it.to}
          {it.reboot && ", in force after a reboot"}
        </li>
      ))}
    </ul>
  );
}

import { Button, Progress } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ListTodo } from "lucide-react";
import { answer, api } from "../../api/client";
import { jobs, useChange } from "../../api/queries";
import type { SchemaJob as Job } from "../../api/schema";
import { moment, percent } from "../../format";
import { Dot } from "../../parts/dot";
import { Empty } from "../../parts/empty";
import { May } from "../../parts/may";
import { Page } from "../../parts/page";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { DataTable, type Column } from "../../parts/table";

const STATES = {
  running: { color: "yellow", label: "running" },
  done: { color: "teal", label: "done" },
  failed: { color: "red", label: "failed" },
  cancelled: { color: "gray", label: "cancelled" },
} as const;

/** Background jobs with their progress and results. */
export function JobsPage() {
  const { data, error } = useQuery(jobs());
  const cancel = useChange({
    run: (id: string) => answer(api.POST("/api/v1/jobs/{id}/cancel", { params: { path: { id } } })),
    done: () => "The job is being cancelled.",
  });
  const columns: Column<Job>[] = [
    { name: "Started", key: (it) => it.started, down: true, cell: (it) => <span className="quiet number">{moment(it.started, true)}</span> },
    { name: "Job", key: (it) => it.description, cell: (it) => <Description job={it} />, main: true },
    { name: "By", key: (it) => it.user, cell: (it) => it.user, wide: true },
    { name: "State", key: (it) => it.state, cell: (it) => (it.state === "running" ? <JobProgress job={it} /> : <Dot {...STATES[it.state]} />) },
    {
      name: "",
      right: true,
      cell: (it) =>
        it.state === "running" &&
        it.kind !== "rebuild" && (
          <May>
            <Button variant="subtle" color="gray" size="compact-sm" aria-label={`Cancel: ${it.description}`} onClick={() => cancel.mutate(it.id)}>
              Cancel
            </Button>
          </May>
        ),
    },
  ];
  return (
    <Page title="Jobs">
      <ProblemAlert error={cancel.error ?? error} />
      {(data || !error) && (
        <Panel flush>
          <DataTable
            label="Jobs"
            noun="job"
            rows={data}
            columns={columns}
            cards
            id={(it) => it.id}
            text={(it) => `${it.description} ${it.user} ${it.state} ${it.message}`}
            empty={<Empty icon={ListTodo} title="No jobs" text="Background jobs are listed here: evacuations, rebuilds and scrubs." />}
          />
        </Panel>
      )}
    </Page>
  );
}

function Description({ job: { description, message } }: { job: Job }) {
  return (
    <span className="message">
      {description}
      {message && <span className="quiet">: {message}</span>}
    </span>
  );
}

/** Progress of a job. */
export function JobProgress({ job }: { job: Job }) {
  return (
    <span style={{ display: "inline-flex", alignItems: "center", gap: 10 }}>
      <Progress value={job.progress * 100} w={90} size={6} color="slate" aria-label={job.description} />
      <span className="number quiet">{percent(job.progress)}</span>
    </span>
  );
}

import { Alert, Button, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ShieldAlert, ShieldCheck } from "lucide-react";
import { answer, api } from "../../api/client";
import { protection, useChange } from "../../api/queries";
import type { SchemaJob as Job, SchemaScrub as Scrub } from "../../api/schema";
import { bytes, count, duration, moment, plural } from "../../format";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { JobProgress } from "../jobs/page";

/** The tolerated drive failures, and the repair of past ones. */
export function ProtectionPanel({ jobs }: { jobs: Job[] }) {
  const { data, error } = useQuery(protection());
  const scrub = useChange({ run: () => answer(api.POST("/api/v1/scrub")), done: () => "The scrub has started." });
  const scrubbing = jobs.some((it) => it.kind === "scrub");
  return (
    <Panel
      title="Protection"
      actions={
        <May>
          <Button variant="default" size="compact-sm" disabled={scrubbing} loading={scrub.isPending} onClick={() => scrub.mutate(undefined)}>
            Scrub now
          </Button>
        </May>
      }
    >
      <Stack gap="md">
        <ProblemAlert error={scrub.error ?? error} />
        {!data && !error && <Skeleton height={160} />}
        {data && (
          <>
            {data.tolerates < data.promises && data.tolerates > 0 ? (
              <Alert color="red" icon={<ShieldAlert size={18} />} title="Protection is reduced">
                Only {data.tolerates === 1 ? "one more drive" : `${data.tolerates} more drives`} may fail without data loss, of {data.promises} by design. Add a drive, or wait until the rebuild is complete.
              </Alert>
            ) : data.tolerates > 0 ? (
              <Alert color="teal" icon={<ShieldCheck size={18} />}>
                Any {data.tolerates === 1 ? "drive" : `${data.tolerates} drives`} may fail without data loss.
              </Alert>
            ) : (
              <Alert color="red" icon={<ShieldAlert size={18} />} title="No redundancy left">
                Another drive failure causes data loss. Add a drive, so that redundancy can be rebuilt.
              </Alert>
            )}
            {jobs.map((job) => (
              <Text key={job.id} size="sm" component="div">
                {job.description} <JobProgress job={job} />
              </Text>
            ))}
            <dl className="facts">
              <dt>At risk</dt>
              <dd className="number">{data.segments_at_risk === 0 ? "nothing" : `${count(data.segments_at_risk)} of ${plural(data.segments, "segment")}, being rebuilt`}</dd>
              <dt>Repaired</dt>
              <dd className="number">{data.repaired === 0 ? "nothing was wrong" : `${plural(data.repaired, "page")} since the start`}</dd>
              {data.lost > 0 && (
                <>
                  <dt>Lost</dt>
                  <dd className="number">{plural(data.lost, "page")}</dd>
                </>
              )}
              {data.former_members.length > 0 && (
                <>
                  <dt>No members</dt>
                  <dd>{data.former_members.join(", ")}: former members, not read</dd>
                </>
              )}
              <dt>Last scrub</dt>
              <dd>{data.scrub ? <LastScrub scrub={data.scrub} /> : <span className="quiet">none yet</span>}</dd>
              {!scrubbing && (
                <>
                  <dt>Next scrub</dt>
                  <dd className="number">{data.next_scrub ? moment(data.next_scrub) : <span className="quiet">not scheduled</span>}</dd>
                </>
              )}
            </dl>
          </>
        )}
      </Stack>
    </Panel>
  );
}

function LastScrub({ scrub: { started, ended, seconds, cancelled, bytes: read, errors, repaired, lost } }: { scrub: Scrub }) {
  const found = errors === 0 ? "nothing wrong" : `${plural(errors, "page")} wrong, ${count(repaired)} repaired${lost > 0 ? `, ${count(lost)} lost` : ""}`;
  return (
    <span className="number">
      {moment(started)}
      {ended ? `, ${cancelled ? "cancelled after" : "took"} ${duration(seconds ?? 0)}` : ", under way"}: {bytes(read)} read, {found}
    </span>
  );
}

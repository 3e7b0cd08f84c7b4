import { Tooltip } from "@mantine/core";
import type { SchemaDrive as Drive, SchemaJob as Job, SchemaDriveState as DriveState } from "../../api/schema";
import { bytes, percent } from "../../format";

const STATES: Record<DriveState, { color: "teal" | "orange" | "red"; label: string }> = {
  online: { color: "teal", label: "online" },
  evacuating: { color: "orange", label: "evacuating" },
  failed: { color: "red", label: "failed" },
};

/** The state of the drive, and whether it is slow. */
export const stateOf = (drive: Drive) => (drive.slow && drive.state !== "failed" ? ({ color: "orange", label: `${STATES[drive.state].label}, slow` } as const) : STATES[drive.state]);

/** The front of a shelf: a bay for each drive with its light and fill level. */
export function Shelf({ drives, jobs }: { drives: Drive[]; jobs: Job[] }) {
  return (
    <ul className="shelf">
      {drives.map((drive) => {
        const { color, label } = stateOf(drive);
        const used = drive.used / drive.size;
        const job = jobs.find((it) => it.slot === drive.slot);
        const says = `Slot ${drive.slot}: ${label}, ${percent(used)} of ${bytes(drive.size)} used${job ? `; ${job.kind} ${percent(job.progress)}` : ""}`;
        return (
          <li key={drive.id}>
            <Tooltip label={`${says}. ${drive.path ?? "The drive is missing."}`}>
              <div className="bay" data-state={drive.state} role="img" aria-label={says} tabIndex={0}>
                <span className="bay-light" style={{ background: `var(--mantine-color-${color}-6)` }} />
                <span className="bay-fill">
                  <span style={{ height: `${Math.min(1, used) * 100}%` }} />
                </span>
                <span className="bay-slot number">{drive.slot}</span>
                <span className="bay-says">{job ? percent(job.progress) : drive.state === "online" ? percent(used) : label}</span>
              </div>
            </Tooltip>
          </li>
        );
      })}
    </ul>
  );
}

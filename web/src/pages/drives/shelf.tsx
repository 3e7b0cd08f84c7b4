import { Tooltip } from "@mantine/core";
import type { SchemaDrive as Drive, SchemaJob as Job, SchemaDriveState as DriveState } from "../../api/schema";
import { bytes, percent } from "../../format";

const STANDINGS: Record<DriveState, { color: "teal" | "orange" | "red"; label: string }> = {
  in_use: { color: "teal", label: "in use" },
  leaving: { color: "orange", label: "evacuating" },
  out: { color: "red", label: "failed" },
};

/** How it stands, and whether it is slow. */
export const stateOf = (drive: Drive) => (drive.slow && drive.state !== "out" ? ({ color: "orange", label: `${STANDINGS[drive.state].label}, slow` } as const) : STANDINGS[drive.state]);

/** The front of a shelf: a bay for each drive, with its light, and filled as it is. */
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
            <Tooltip label={`${says}. ${drive.path ?? "It is not there."}`}>
              <div className="bay" data-standing={drive.state} role="img" aria-label={says} tabIndex={0}>
                <span className="bay-light" style={{ background: `var(--mantine-color-${color}-6)` }} />
                <span className="bay-fill">
                  <span style={{ height: `${Math.min(1, used) * 100}%` }} />
                </span>
                <span className="bay-slot number">{drive.slot}</span>
                <span className="bay-says">{job ? percent(job.progress) : drive.state === "in_use" ? percent(used) : label}</span>
              </div>
            </Tooltip>
          </li>
        );
      })}
    </ul>
  );
}

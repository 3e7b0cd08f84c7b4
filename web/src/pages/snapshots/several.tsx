/** Deletes several snapshots at once. */
import { Button } from "@mantine/core";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { each } from "../../api/each";
import { useChange } from "../../api/queries";
import type { SchemaSnapshot as Snapshot } from "../../api/schema";
import { plural } from "../../format";
import { Confirm } from "../../parts/confirm";

export function SeveralSnapshots({ snapshots, clear }: { snapshots: Snapshot[]; clear: () => void }) {
  const [asking, setAsking] = useState(false);
  const remove = useChange({
    run: () => each(snapshots, (it) => it.name, (it) => answer(api.DELETE("/api/v1/snapshots/{name}", { params: { path: { name: it.name } } }))),
    done: (count) => `${plural(count, "snapshot")} moved to the recycle bin.`,
    then: () => {
      setAsking(false);
      clear();
    },
  });
  const them = plural(snapshots.length, "snapshot");
  return (
    <>
      <Button variant="default" size="compact-sm" leftSection={<Trash2 size={14} aria-hidden />} onClick={() => setAsking(true)}>
        Delete
      </Button>
      {asking && (
        <Confirm opened onClose={() => setAsking(false)} title={`Delete ${them}?`} name={them} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
          <div style={{ overflowWrap: "anywhere", maxHeight: 140, overflowY: "auto" }}>{snapshots.map((it) => it.name).join(", ")}</div>
          They go to the recycle bin, and can be restored until they are eradicated. Snapshots under a retention lock, and those that hosts see, are refused.
        </Confirm>
      )}
    </>
  );
}

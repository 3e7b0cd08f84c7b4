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
import { isLocked } from "../undeletable";

export function SeveralSnapshots({ snapshots, clear }: { snapshots: Snapshot[]; clear: () => void }) {
  // The snapshots selected at the click, by their ids: later changes and equal names do not matter.
  const [asked, setAsked] = useState<Snapshot[]>();
  const remove = useChange({
    run: () => each(asked ?? [], (it) => it.name, (it) => answer(api.DELETE("/api/v1/snapshots/{name}", { params: { path: { name: it.id } } }))),
    done: (count) => `${plural(count, "snapshot")} moved to the recycle bin.`,
    then: () => {
      setAsked(undefined);
      clear();
    },
  });
  const kept = (asked ?? []).filter((it) => it.connections.length > 0 || isLocked(it));
  const them = plural(asked?.length ?? 0, "snapshot");
  return (
    <>
      <Button variant="default" size="compact-sm" leftSection={<Trash2 size={14} aria-hidden />} onClick={() => setAsked(snapshots)}>
        Delete
      </Button>
      {asked && (
        <Confirm opened onClose={() => setAsked(undefined)} title={`Delete ${them}?`} name={them} blocked={kept.length > 0 && `${kept.map((it) => it.name).join(", ")}: connected to hosts, or under a retention lock. Select others.`} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
          <div style={{ overflowWrap: "anywhere", maxHeight: 140, overflowY: "auto" }}>{asked.map((it) => it.name).join(", ")}</div>
          They go to the recycle bin, and can be restored until they are eradicated.
        </Confirm>
      )}
    </>
  );
}

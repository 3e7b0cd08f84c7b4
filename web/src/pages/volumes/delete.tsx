/** Deletes a volume, and on request its snapshots. */
import { Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { answer, api } from "../../api/client";
import { each } from "../../api/each";
import { useChange } from "../../api/queries";
import type { SchemaVolume as Volume } from "../../api/schema";
import { bytes, plural } from "../../format";
import { Confirm } from "../../parts/confirm";
import { connectedText, isLocked, useUsedText } from "../undeletable";
import { useSnapshotsOf } from "../snapshots/forms";

type Fate = "keep" | "delete";

export function DeleteVolume({ volume, opened, onClose }: { volume: Volume; opened: boolean; onClose: () => void }) {
  const [, go] = useLocation();
  const [fate, setFate] = useState<Fate>("keep");
  const snapshots = useSnapshotsOf(volume.name) ?? [];
  const locked = snapshots.filter(isLocked).length;
  const doomed = fate === "delete" ? snapshots.filter((it) => !isLocked(it)) : [];
  const used = useUsedText("volume", volume.name, opened);
  const blocked = connectedText(volume) ?? used;
  const remove = useChange({
    run: async () => {
      // The volume is deleted first: a refusal leaves the snapshots unchanged.
      await answer(api.DELETE("/api/v1/volumes/{name}", { params: { path: { name: volume.name } } }));
      return each(doomed, (it) => it.name, (it) => answer(api.DELETE("/api/v1/snapshots/{name}", { params: { path: { name: it.name } } })));
    },
    done: (count) => `Volume ${volume.name}${count > 0 ? ` and ${plural(count, "snapshot")}` : ""} moved to the recycle bin.`,
    then: () => go("/volumes"),
  });
  return (
    <Confirm opened={opened} onClose={onClose} title={`Delete ${volume.name}?`} name={volume.name} blocked={blocked} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      <Stack gap="sm">
        <div>
          The volume of {bytes(volume.size)} goes to the recycle bin, with its {bytes(volume.mapped)} of mapped data. Until it is eradicated, it can be restored, and its space is not freed.
        </div>
        {snapshots.length === 0 ? (
          <div>It has no snapshots.</div>
        ) : (
          <Radio.Group label={`Its ${plural(snapshots.length, "snapshot")}`} value={fate} onChange={(value) => setFate(value as Fate)}>
            <Stack gap={8} mt={6}>
              <Radio value="keep" label="Keep the snapshots" description="They stay as they are, can be cloned, and keep their space until they are deleted." />
              <Radio value="delete" label="Delete the snapshots, too" description="They go to the recycle bin with the volume." />
            </Stack>
          </Radio.Group>
        )}
        {locked > 0 && (
          <Text size="sm" className="quiet">
            {plural(locked, "snapshot is", "snapshots are")} under a retention lock and kept in any case.
          </Text>
        )}
      </Stack>
    </Confirm>
  );
}

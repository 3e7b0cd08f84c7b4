import { Alert, Checkbox, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { ShieldAlert } from "lucide-react";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaDrive as Drive } from "../../api/schema";
import { bytes } from "../../format";
import { Confirm } from "../../parts/confirm";
import { FormModal } from "../../parts/form";
import { DrivePicker } from "./picker";

const pathError = (path: string) => (path.startsWith("/") ? null : "Give the whole path, such as /dev/disk/by-id/nvme-….");

const arrayError = (id: string) => (id === "" || /^[0-9a-f]{32}$/i.test(id) ? null : "The identity of an array has 32 hex digits.");

/** The chosen device, and the permission to overwrite it. */
function useDevice() {
  return useForm({
    initialValues: { path: "", force: false, take_from_array: "" },
    validate: { path: pathError, take_from_array: arrayError },
    transformValues: ({ take_from_array: array, ...rest }) => ({ ...rest, take_from_array: array === "" ? null : array }),
  });
}

type NewDevice = ReturnType<ReturnType<typeof useDevice>["getTransformedValues"]>;

function DeviceFields({ form }: { form: ReturnType<typeof useDevice> }) {
  return (
    <>
      <DrivePicker value={form.values.path} onChange={({ path }) => form.setValues({ path, force: false })} />
      <TextInput label="Device" description="Path on the array’s machine, preferably under /dev/disk/by-id." placeholder="/dev/disk/by-id/nvme-…" autoComplete="off" spellCheck={false} required {...form.getInputProps("path")} />
      <Checkbox label="Overwrite a block device that is not blank: its contents are destroyed" description="Never a drive with the label of an Ashlar array." color="red" {...form.getInputProps("force", { type: "checkbox" })} />
      <TextInput label="Take from array" description="Only for a drive with the label of an Ashlar array: the identity of that array, which can no longer use the drive." placeholder="32 hex digits" autoComplete="off" spellCheck={false} {...form.getInputProps("take_from_array")} />
    </>
  );
}

export function AddDrive({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useDevice();
  const close = () => {
    onClose();
    form.reset();
    add.reset();
  };
  const add = useChange({
    run: (body: NewDevice) => answer(api.POST("/api/v1/drives", { body })),
    done: (drive) => `The drive is in slot ${drive.slot}, and is used for new writes.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Add drive" verb="Add" busy={add.isPending} error={add.error} onSubmit={form.onSubmit((values) => add.mutate(values))}>
      <DeviceFields form={form} />
    </FormModal>
  );
}

export function ReplaceDrive({ drive, onClose }: { drive: Drive; onClose: () => void }) {
  const form = useDevice();
  const replace = useChange({
    run: (body: NewDevice) => answer(api.POST("/api/v1/drives/{slot}/replace", { params: { path: { slot: `${drive.slot}` } }, body })),
    done: (made) => `The drive in slot ${made.slot} replaces it.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Replace the drive in slot ${drive.slot}`} verb="Replace" busy={replace.isPending} error={replace.error} onSubmit={form.onSubmit((values) => replace.mutate(values))}>
      <DeviceFields form={form} />
    </FormModal>
  );
}

export function EvacuateDrive({ drive, onClose }: { drive: Drive; onClose: () => void }) {
  const warning = drive.evacuation_warning ?? null;
  const empty = useChange({
    run: () => answer(api.POST("/api/v1/drives/{slot}/evacuate", { params: { path: { slot: `${drive.slot}` } }, body: { accept_reduced_protection: warning !== null } })),
    done: () => `The drive in slot ${drive.slot} is being evacuated.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Evacuate the drive in slot ${drive.slot}?`} verb={warning === null ? "Evacuate" : "Evacuate with reduced protection"} name={warning === null ? undefined : "reduced protection"} busy={empty.isPending} error={empty.error} onConfirm={() => empty.mutate(undefined)}>
      {warning !== null && (
        <Alert color="red" icon={<ShieldAlert size={18} />} title="Protection is reduced" mb="md">
          {warning.charAt(0).toUpperCase() + warning.slice(1)}. Add a drive first to avoid that.
        </Alert>
      )}
      The {bytes(drive.used)} on it are placed on the other drives. When that is done, it is no part of the array any more and can be taken away. Hosts don’t notice.
    </Confirm>
  );
}

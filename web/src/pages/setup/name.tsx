import { Button, Skeleton, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { answer, api } from "../../api/client";
import { settings, useChange } from "../../api/queries";
import { useMay } from "../../api/session";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { TimeZoneInput, browserZone } from "../../parts/time-zone";
import { Step } from "./step";

type Props = { onBack: () => void; onNext: () => void };

/** The name of the array, and the time zone of its schedules. */
export function NameStep(props: Props) {
  const { data, error } = useQuery(settings());
  if (data) return <Named {...props} name={data.name} zone={data.time_zone} />;
  return error ? <ProblemAlert error={error} /> : <Skeleton height={180} />;
}

function Named({ name, zone, onBack, onNext }: Props & { name: string; zone: string }) {
  const may = useMay("admin");
  const form = useForm({ initialValues: { name, time_zone: zone === "UTC" && may ? browserZone() : zone }, validate: { name: nameError } });
  const save = useChange({
    run: (body: typeof form.values) => answer(api.PATCH("/api/v1/settings", { body })),
    done: (now) => `The array is ${now.name}, and its time zone ${now.time_zone}.`,
    then: onNext,
  });
  const submit = form.onSubmit((values) => (values.name === name && values.time_zone === zone ? onNext() : save.mutate(values)));
  return (
    <form noValidate onSubmit={submit}>
      <Step
        title="Name and time zone"
        onBack={onBack}
        forward={
          <Button type="submit" loading={save.isPending}>
            Next
          </Button>
        }
      >
        <TextInput label="Name of the array" description={may ? "Shown on every page and in every alert. It can be changed at any time." : "An admin can change it."} maw={420} mb="md" disabled={!may} autoComplete="off" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
        <TimeZoneInput description="Of snapshot schedules: when a day begins and ends." maw={420} mb="md" disabled={!may} {...form.getInputProps("time_zone")} />
        <ProblemAlert error={save.error} />
      </Step>
    </form>
  );
}

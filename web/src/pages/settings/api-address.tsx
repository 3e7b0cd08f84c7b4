import { Button, Checkbox, Group, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { apiAddress, controllers, useChange } from "../../api/queries";
import { moment } from "../../format";
import { Dot } from "../../parts/dot";
import { Fact } from "../../parts/fact";
import { FormModal } from "../../parts/form";
import { May } from "../../parts/may";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";

/** The addresses of the API: the address of the options, and an address that the page changes. */
export function ApiAddressPanel() {
  const { data, error } = useQuery(apiAddress());
  const [changing, setChanging] = useState(false);
  const confirm = useChange({
    run: () => answer(api.POST("/api/v1/api-address/confirm")),
    done: (now) => `${now.address ?? "The address"} is the address of the API.`,
  });
  const button = (
    <May role="admin">
      <Button size="compact-sm" variant="default" onClick={() => setChanging(true)}>
        Change address
      </Button>
    </May>
  );
  return (
    <Panel title="API and web interface" actions={button}>
      <ProblemAlert error={error ?? confirm.error} />
      {data && (
        <Stack gap="sm">
          <dl className="facts">
            <Fact name="By option">
              <span className="number">{data.by_option}</span>
            </Fact>
            <Fact name="Kept by the array">{data.address ? <Dot color={data.listens ? "teal" : "red"} label={data.listens ? data.address : `${data.address} (can’t listen)`} /> : <span className="quiet">none</span>}</Fact>
            {data.moving && (
              <Fact name="Moves with the home">
                <Dot color={data.moving_listens ? "teal" : "red"} label={data.moving_listens ? data.moving : `${data.moving} (can’t listen)`} />
              </Fact>
            )}
          </dl>
          {data.trial && (
            <Group gap="sm">
              <Text size="sm">
                {data.trial} is on trial until {data.trial_until ? moment(data.trial_until) : "it is confirmed"}: the first request that you make there confirms it.
              </Text>
              <May role="admin">
                <Button size="compact-sm" loading={confirm.isPending} onClick={() => confirm.mutate(undefined)}>
                  Confirm
                </Button>
              </May>
            </Group>
          )}
        </Stack>
      )}
      {changing && <ChangeAddress now={data?.address ?? ""} moving={data?.moving ?? ""} onClose={() => setChanging(false)} />}
    </Panel>
  );
}

function ChangeAddress({ now, moving, onClose }: { now: string; moving: string; onClose: () => void }) {
  const several = (useQuery(controllers()).data?.length ?? 1) > 1;
  const form = useForm({ initialValues: { address: now, moves: false } });
  const change = useChange({
    run: ({ address, moves }: { address: string; moves: boolean }) => answer(api.PUT("/api/v1/api-address", { body: { address: address.trim() === "" ? null : address.trim(), moves } })),
    done: (now) => (now.trial ? `${now.trial} is on trial: sign in there.` : "The address is changed."),
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title="Change the address of the API" verb="Change" busy={change.isPending} error={change.error} onSubmit={form.onSubmit((values) => change.mutate(values))}>
      <TextInput label="Address" description="Of this server, such as 10.0.0.1 or 10.0.0.1:8443. Empty: only that of the options." autoComplete="off" spellCheck={false} data-autofocus {...form.getInputProps("address")} />
      {several && <Checkbox label="It moves with the home" description="The address of the array instead of that of this controller. It must not be configured on a machine." checked={form.values.moves} onChange={({ currentTarget: { checked } }) => form.setValues({ moves: checked, address: checked ? moving : now })} />}
      <Text size="sm" className="quiet">
        A new address serves beside the one before. It is kept once you have signed in there, and given up after ten minutes without that.
      </Text>
    </FormModal>
  );
}

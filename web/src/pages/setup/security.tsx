import { Alert, Button, PasswordInput, SimpleGrid, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { ShieldCheck, ShieldOff } from "lucide-react";
import { answer, api } from "../../api/client";
import { driveKey, useChange } from "../../api/queries";
import { isGuest, session, useSession } from "../../api/session";
import { ProblemAlert } from "../../parts/problem";
import { ENCRYPTION } from "../settings/encryption";
import { passwordError } from "../settings/password";
import { Step } from "./step";

type Props = { onBack: () => void; onNext: () => void };

/** The step of the administrator's own password, in place of the printed one, and of the drives' encryption. */
export function SecurityStep({ onBack, onNext }: Props) {
  const who = useSession();
  const user = who.at === "in" ? who.user : "";
  const inSession = who.at === "in" && !who.byToken;
  const key = useQuery(driveKey());
  const form = useForm({
    initialValues: { current: "", password: "", again: "" },
    validate: {
      current: (current, { password }) => (inSession && password !== "" && current === "" ? "Enter your current password." : null),
      password: (password) => (password === "" ? null : passwordError(password)),
      again: (again, { password }) => (again === password ? null : "The passwords differ."),
    },
  });
  const save = useChange({
    run: async ({ current, password }: typeof form.values) => {
      await answer(api.PATCH("/api/v1/users/{name}", { params: { path: { name: user } }, body: { password, ...(inSession && { current_password: current }) } }));
      if (inSession) await session.begin(user, password);
    },
    done: () => `The password of ${user} is set.`,
    then: onNext,
  });
  const keeps = form.values.password === "";
  return (
    <form noValidate onSubmit={form.onSubmit((values) => (keeps ? onNext() : save.mutate(values)))}>
      <Step
        title="Security"
        onBack={onBack}
        forward={
          <Button type="submit" loading={save.isPending}>
            {keeps ? "Keep password" : "Set password"}
          </Button>
        }
      >
        <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="lg">
          <Stack gap="sm">
            {isGuest(user) ? (
              <Text size="sm">The password of {user} is kept in the directory.</Text>
            ) : (
              <>
                <input type="text" hidden readOnly autoComplete="username" value={user} />
                {inSession && <PasswordInput label="Current password" description="The first start of the array printed it." autoComplete="current-password" {...form.getInputProps("current")} />}
                <PasswordInput label={`New password of ${user}`} description="8 characters or more. Existing sessions end." autoComplete="new-password" {...form.getInputProps("password")} />
                <PasswordInput label="Repeat password" autoComplete="new-password" {...form.getInputProps("again")} />
              </>
            )}
          </Stack>
          {key.data &&
            (key.data.source === "none" ? (
              <Alert color="yellow" icon={<ShieldOff size={18} />} title="The drives are not encrypted">
                Anyone with physical access to the drives can read their data. Encryption is chosen when the array is made, before there is data: <code>ashlard format --encrypt</code>.
              </Alert>
            ) : (
              <Alert color="teal" icon={<ShieldCheck size={18} />} title="The drives are encrypted">
                Everything on the drives is {ENCRYPTION[key.data.source]}. Keep a copy of the key elsewhere: without it the data are lost. It can be rotated in Settings.
              </Alert>
            ))}
        </SimpleGrid>
        <ProblemAlert error={save.error ?? key.error} />
      </Step>
    </form>
  );
}

import { PasswordInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import { session, useSession } from "../../api/session";
import { FormModal } from "../../parts/form";

export const passwordError = (password: string) => (password.length < 8 || password.length > 256 ? "8 to 256 characters." : null);

/**
 * Changes a password. The change ends the user's sessions; after a change of one's own password the page gets a new
 * session.
 */
export function SetPassword({ user, opened, onClose }: { user: string; opened: boolean; onClose: () => void }) {
  const who = useSession();
  const own = who.at === "in" && who.user === user;
  const inSession = own && !who.byToken;
  const form = useForm({
    initialValues: { current: "", password: "", again: "" },
    validate: { current: (current) => (inSession && current === "" ? "Enter your current password." : null), password: passwordError, again: (again, { password }) => (again === password ? null : "The passwords differ.") },
  });
  const close = () => {
    onClose();
    form.reset();
    save.reset();
  };
  const save = useChange({
    run: async ({ current, password }: typeof form.values) => {
      await answer(api.PATCH("/api/v1/users/{name}", { params: { path: { name: user } }, body: { password, ...(inSession && { current_password: current }) } }));
      if (inSession) await session.begin(user, password);
    },
    done: () => (own ? "Your password is set." : `The password of ${user} is set; ${user} has to sign in again.`),
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title={own ? "Change your password" : `Password of ${user}`} verb="Set password" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <input type="text" hidden readOnly autoComplete="username" value={user} />
      {inSession && <PasswordInput label="Current password" autoComplete="current-password" data-autofocus required {...form.getInputProps("current")} />}
      <PasswordInput label="New password" description="8 characters or more. Existing sessions end." autoComplete="new-password" data-autofocus={!inSession} required {...form.getInputProps("password")} />
      <PasswordInput label="Repeat password" autoComplete="new-password" required {...form.getInputProps("again")} />
    </FormModal>
  );
}

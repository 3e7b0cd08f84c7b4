import { Button, Group, PasswordInput, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { KeyRound, Pencil, Plus, Trash2, Users } from "lucide-react";
import { useState } from "react";
import { answer, api } from "../../api/client";
import { useChange, users } from "../../api/queries";
import type { SchemaRole as Role, SchemaUser as User } from "../../api/schema";
import { useSession } from "../../api/session";
import { moment } from "../../format";
import { Act } from "../../parts/act";
import { Confirm } from "../../parts/confirm";
import { Empty } from "../../parts/empty";
import { FormModal } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem";
import { nameError } from "../../parts/size-input";
import { DataTable, type Column } from "../../parts/table";
import { passwordError, SetPassword } from "./password";

/** The privileges of each role as text for choices. */
export const ROLES: { value: Role; label: string }[] = [
  { value: "viewer", label: "viewer: read-only access" },
  { value: "operator", label: "operator: manage volumes, snapshots and hosts" },
  { value: "admin", label: "admin: full access" },
];

type Task = { verb: "role" | "password" | "delete"; user: User };

export function UsersPanel() {
  const { data, error } = useQuery(users());
  const [creating, setCreating] = useState(false);
  const [task, setTask] = useState<Task>();
  const close = () => setTask(undefined);
  const who = useSession();
  const me = who.at === "in" ? who.user : "";
  const columns: Column<User>[] = [
    {
      name: "Name",
      key: (it) => it.name,
      cell: (it) => (
        <>
          <b style={{ fontWeight: 500 }}>{it.name}</b>
          {it.name === me && <span className="quiet"> (you)</span>}
        </>
      ),
    },
    { name: "Role", key: (it) => ROLES.findIndex((role) => role.value === it.role), cell: (it) => it.role },
    { name: "Password set", key: (it) => it.password_set, cell: (it) => <span className="quiet number">{moment(it.password_set)}</span>, wide: true },
    { name: "Created", key: (it) => it.created, cell: (it) => <span className="quiet number">{moment(it.created)}</span>, wide: true },
    {
      name: "",
      right: true,
      cell: (user) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Act icon={Pencil} label={`Change the role of ${user.name}`} onClick={() => setTask({ verb: "role", user })} />
          <Act icon={KeyRound} label={`Set the password of ${user.name}`} onClick={() => setTask({ verb: "password", user })} />
          <Act icon={Trash2} label={`Delete ${user.name}`} onClick={() => setTask({ verb: "delete", user })} />
        </Group>
      ),
    },
  ];
  return (
    <Panel
      title="Users"
      flush
      actions={
        <Button size="compact-sm" leftSection={<Plus size={15} aria-hidden />} onClick={() => setCreating(true)}>
          Create user
        </Button>
      }
    >
      <ProblemAlert error={error} />
      {(data || !error) && <DataTable label="Users" noun="user" rows={data} columns={columns} id={(it) => it.name} empty={<Empty icon={Users} title="No users" text="Only the token in the data folder of the array has access." />} />}
      <CreateUser opened={creating} onClose={() => setCreating(false)} />
      {task?.verb === "role" && <ChangeRole user={task.user} onClose={close} />}
      {task?.verb === "password" && <SetPassword user={task.user.name} opened onClose={close} />}
      {task?.verb === "delete" && <DeleteUser user={task.user} onClose={close} />}
    </Panel>
  );
}

function CreateUser({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const form = useForm<{ name: string; role: Role; password: string; again: string }>({
    initialValues: { name: "", role: "operator", password: "", again: "" },
    validate: { name: nameError, password: passwordError, again: (again, { password }) => (again === password ? null : "The passwords differ.") },
  });
  const close = () => {
    onClose();
    form.reset();
    create.reset();
  };
  const create = useChange({
    run: ({ name, role, password }: typeof form.values) => answer(api.POST("/api/v1/users", { body: { name, role, password } })),
    done: (made) => `User ${made.name} was created.`,
    then: close,
  });
  return (
    <FormModal opened={opened} onClose={close} title="Create user" verb="Create" busy={create.isPending} error={create.error} onSubmit={form.onSubmit((values) => create.mutate(values))}>
      <TextInput label="Name" autoComplete="off" autoCapitalize="none" spellCheck={false} data-autofocus required {...form.getInputProps("name")} />
      <Select label="Role" data={ROLES} allowDeselect={false} required {...form.getInputProps("role")} />
      <PasswordInput label="Password" description="8 characters or more." autoComplete="new-password" required {...form.getInputProps("password")} />
      <PasswordInput label="Repeat password" autoComplete="new-password" required {...form.getInputProps("again")} />
    </FormModal>
  );
}

function ChangeRole({ user, onClose }: { user: User; onClose: () => void }) {
  const form = useForm<{ role: Role }>({ initialValues: { role: user.role } });
  const save = useChange({
    run: ({ role }: typeof form.values) => answer(api.PATCH("/api/v1/users/{name}", { params: { path: { name: user.name } }, body: { role } })),
    done: (now) => `${now.name} now has the role ${now.role}.`,
    then: onClose,
  });
  return (
    <FormModal opened onClose={onClose} title={`Role of ${user.name}`} verb="Save" busy={save.isPending} error={save.error} onSubmit={form.onSubmit((values) => save.mutate(values))}>
      <Select label="Role" description="Takes effect immediately, also for the tokens of the user." data={ROLES} allowDeselect={false} data-autofocus {...form.getInputProps("role")} />
    </FormModal>
  );
}

function DeleteUser({ user, onClose }: { user: User; onClose: () => void }) {
  const remove = useChange({
    run: () => answer(api.DELETE("/api/v1/users/{name}", { params: { path: { name: user.name } } })),
    done: () => `User ${user.name} was deleted.`,
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`Delete ${user.name}?`} name={user.name} verb="Delete" busy={remove.isPending} error={remove.error} onConfirm={() => remove.mutate(undefined)}>
      Sessions end immediately, and the API tokens of {user.name} are revoked. The audit log is kept.
    </Confirm>
  );
}

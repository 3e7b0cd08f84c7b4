import { Alert, Button, Code, Divider, Group, PasswordInput, Stack, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import type { Refusal } from "../api/refusal";
import { session, useSession, type Reason } from "../api/session";
import { Logo } from "../parts/logo";
import { ProblemAlert } from "../parts/problem";

const REASONS: Record<Exclude<Reason, "left">, string> = {
  ended: "The session has ended. Sign in again to return to the same page.",
  idle: "You were signed out after half an hour without activity. Sign in again to return to the same page.",
};

/** Queries that need no session. */
const SIGN_IN = "sign-in";

/** The log-in page: user and password, identity provider, or token. */
export function LoginPage() {
  useDocumentTitle("Sign in · Ashlar");
  const state = useSession();
  const [byToken, setByToken] = useState(false);
  const client = useQueryClient();
  // The next user may have fewer rights.
  useEffect(() => client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SIGN_IN }), [client]);
  const reason = state.at === "out" && state.reason !== "left" && state.reason;
  return (
    <Gate>
      {reason && <Alert color="yellow">{REASONS[reason]}</Alert>}
      {state.at === "out" && <ProblemAlert error={state.problem} />}
      {byToken ? <TokenForm /> : <PasswordForm last={state.at === "out" ? state.user : ""} />}
      <Directories />
      <Button variant="subtle" color="gray" size="compact-sm" onClick={() => setByToken(!byToken)}>
        {byToken ? "With a user’s password" : "With a token"}
      </Button>
    </Gate>
  );
}

function Gate({ children }: { children: ReactNode }) {
  return (
    <main style={{ minHeight: "100vh", display: "grid", placeItems: "center", padding: 16 }}>
      <Stack className="panel" gap="md" w="100%" maw={400} p={28}>
        <Group gap="sm">
          <Logo size={34} />
          <Title order={1}>Ashlar</Title>
        </Group>
        {children}
      </Stack>
    </main>
  );
}

function PasswordForm({ last }: { last: string }) {
  const [user, setUser] = useState(last || "admin");
  const [password, setPassword] = useState("");
  const enter = useMutation<unknown, Refusal>({ mutationFn: () => session.begin(user.trim(), password) });
  return (
    <Entrance busy={enter.isPending} error={enter.error} ready={user.trim() !== "" && password !== ""} onEnter={() => enter.mutate()}>
      <TextInput label="User" value={user} onChange={(event) => setUser(event.currentTarget.value)} autoComplete="username" autoCapitalize="none" spellCheck={false} required />
      <PasswordInput
        label="Password"
        description="The first start of the array printed the password of admin."
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        autoComplete="current-password"
        autoFocus
        required
      />
    </Entrance>
  );
}

function TokenForm() {
  const [token, setToken] = useState("");
  const enter = useMutation<unknown, Refusal>({ mutationFn: () => session.useToken(token.trim()) });
  return (
    <Entrance busy={enter.isPending} error={enter.error} ready={token.trim() !== ""} onEnter={() => enter.mutate()}>
      <PasswordInput
        label="Token"
        description={
          <>
            An API token, or the token in <Code>api.json</Code> in the data folder of the array. It is stored in this tab only.
          </>
        }
        value={token}
        onChange={(event) => setToken(event.currentTarget.value)}
        autoComplete="off"
        autoFocus
        required
      />
    </Entrance>
  );
}

/** Log-in by identity providers. The other log-ins remain if no provider is reachable. */
function Directories() {
  const { data } = useQuery({ queryKey: [SIGN_IN], queryFn: session.directories, staleTime: Infinity });
  const depart = useMutation<string, Refusal, string>({ mutationFn: session.depart, onSuccess: (url) => location.assign(url) });
  if (!data?.length) return null;
  return (
    <>
      <Divider label="or" />
      {data.map((name) => (
        <Button key={name} variant="default" fullWidth loading={depart.isPending && depart.variables === name} onClick={() => depart.mutate(name)}>
          Sign in with {name}
        </Button>
      ))}
      <ProblemAlert error={depart.error} />
    </>
  );
}

type EntranceProps = { busy: boolean; error: unknown; ready: boolean; onEnter: () => void; children: ReactNode };

function Entrance({ busy, error, ready, onEnter, children }: EntranceProps) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) onEnter();
      }}
    >
      <Stack gap="md">
        {children}
        <ProblemAlert error={error} />
        <Button type="submit" loading={busy} disabled={!ready} fullWidth>
          Sign in
        </Button>
      </Stack>
    </form>
  );
}

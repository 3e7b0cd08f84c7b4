import { Alert, Button, Code, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Refusal } from "../api/client";
import { session, useSession } from "../api/session";
import { Logo } from "../parts/logo";
import { ProblemAlert } from "../parts/problem";

/** Asks for the token, and lets in whoever has the array's. */
export function LoginPage() {
  useDocumentTitle("Sign in · Ashlar");
  const { ended } = useSession();
  const [token, setToken] = useState("");
  const enter = useMutation<undefined, Refusal, string>({ mutationFn: tryToken });
  return (
    <main style={{ minHeight: "100vh", display: "grid", placeItems: "center", padding: 16 }}>
      <form
        className="panel"
        style={{ width: "100%", maxWidth: 400, padding: 28 }}
        onSubmit={(event) => {
          event.preventDefault();
          enter.mutate(token.trim());
        }}
      >
        <Stack gap="md">
          <Group gap="sm">
            <Logo size={34} />
            <Title order={1}>Ashlar</Title>
          </Group>
          {ended && !enter.error && <Alert color="yellow">The array no longer takes the token. Sign in again.</Alert>}
          <PasswordInput
            label="Token"
            description={<>It stands in <Code>api.json</Code> in the array’s folder.</>}
            value={token}
            onChange={(event) => setToken(event.currentTarget.value)}
            autoComplete="current-password"
            data-autofocus
            autoFocus
            required
          />
          <ProblemAlert error={enter.error} />
          <Button type="submit" loading={enter.isPending} disabled={token.trim() === ""} fullWidth>
            Sign in
          </Button>
          <Text size="xs" className="quiet">
            The token is kept in this tab only.
          </Text>
        </Stack>
      </form>
    </main>
  );
}

async function tryToken(token: string): Promise<undefined> {
  let response: Response;
  try {
    response = await fetch("/api/v1/array", { headers: { authorization: `Bearer ${token}` } });
  } catch (error) {
    throw Refusal.of(error);
  }
  if (!response.ok) throw Refusal.of(await response.json());
  session.begin(token);
}

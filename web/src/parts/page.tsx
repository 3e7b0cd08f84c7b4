import { Anchor, Breadcrumbs, Group, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Link } from "wouter";

type Props = { title: string; above?: { label: string; path: string }; actions?: ReactNode; beside?: ReactNode; children: ReactNode };

/** A page: its name, its actions, its content. */
export function Page({ title, above, actions, beside, children }: Props) {
  useDocumentTitle(`${title} · Ashlar`);
  return (
    <>
      {above && (
        <Breadcrumbs mb={4} separator="/" styles={{ separator: { marginInline: 6 } }}>
          <Anchor component={Link} href={above.path} size="sm">
            {above.label}
          </Anchor>
          <span />
        </Breadcrumbs>
      )}
      <Group justify="space-between" align="center" mb="md" gap="sm" mih={36}>
        <Group gap="sm" miw={0}>
          <Title order={1} style={{ overflowWrap: "anywhere" }}>
            {title}
          </Title>
          {beside}
        </Group>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </>
  );
}

import { Group, Title } from "@mantine/core";
import type { CSSProperties, ReactNode } from "react";

type Props = { title?: string; actions?: ReactNode; flush?: boolean; style?: CSSProperties; children: ReactNode };

/** A card of a page. `flush` lets its content, such as a table, reach the edges. */
export function Panel({ title, actions, flush, style, children }: Props) {
  return (
    <section className="panel" style={{ padding: flush ? 0 : 16, ...style }} aria-label={title}>
      {title && (
        <Group justify="space-between" mb={flush ? 6 : 12} px={flush ? 16 : 0} pt={flush ? 12 : 0} mih={28}>
          <Title order={2}>{title}</Title>
          {actions}
        </Group>
      )}
      {children}
    </section>
  );
}
